//! The writer's clock.

use std::thread;
use std::time::{Duration, Instant};

/// Beats at a steady rate; a beat that is late is not made up for.
pub struct Pace {
    every: Duration,
    next: Instant,
}

impl Pace {
    pub fn new(every: Duration) -> Self {
        Self {
            every,
            next: Instant::now(),
        }
    }

    /// Returns at the next beat. It gives the processor away meanwhile but for intervals that a turn of another thread
    /// would swallow.
    pub fn beat(&mut self) {
        while Instant::now() < self.next {
            if self.every < Duration::from_micros(200) {
                std::hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
        self.next = Instant::now() + self.every;
    }
}
