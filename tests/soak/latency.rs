//! The time from a frame's `write()` returning to a reader's stat showing it.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::field::Field;

/// Delays of frames in nanoseconds, sorted; 0 where stat showed a frame before its `write()` had returned.
#[derive(Default)]
pub struct Delays(Vec<u64>);

impl Delays {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The delay that this share of the frames, in thousandths, does not exceed.
    pub fn quantile(&self, permille: usize) -> Duration {
        let last = self.0.len().saturating_sub(1);
        Duration::from_nanos(self.0.get(last * permille / 1000).copied().unwrap_or(0))
    }
}

/// Stats in a loop one growing capture after the other.
pub fn measure(field: &Field) -> Delays {
    let mut delays = Vec::new();
    let mut writer = 0;
    'captures: loop {
        writer = (writer + 1) % field.captures.len();
        let capture = field.newest(writer);
        let path = field.mnt.join(&capture.name);
        let mut seen = None;
        while seen != Some(capture.growth.ends.len() - 1) {
            if field.is_over_within(Duration::ZERO) {
                break 'captures;
            }
            let size = match path.metadata() {
                Ok(metadata) => usize::try_from(metadata.len()).unwrap(),
                Err(_) if capture.is_removed() => break,
                Err(error) => {
                    field.fail(format!("{}: stat: {error}", capture.name));
                    break;
                }
            };
            let now = field.nanos();
            let Ok(last) = capture.growth.ends.binary_search(&size) else {
                field.fail(format!("{}: size {size} is within a record", capture.name));
                break;
            };
            // What was there at the first look is of unknown age.
            for landed in &capture.landed[seen.unwrap_or(last) + 1..=last.max(seen.unwrap_or(0))] {
                delays.push(match landed.load(Ordering::SeqCst) {
                    0 => 0,
                    landed => now.saturating_sub(landed),
                });
            }
            seen = Some(last);
            thread::yield_now();
        }
    }
    delays.sort_unstable();
    Delays(delays)
}
