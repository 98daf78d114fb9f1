//! Budget, sharing and failure of the frame cache.

use super::budget::OVERHEAD_BYTES;
use super::*;
use std::sync::Barrier;
use std::thread;

fn key(frame: u64) -> Key {
    Key { source: 1, frame }
}

fn fill(byte: u8) -> impl FnOnce(&mut [u8], &mut [u8]) -> Result<(), Error> {
    move |out, _| {
        out.fill(byte);
        Ok(())
    }
}

#[test]
fn readers_that_ask_at_once_share_one_decode() {
    let cache = Cache::new(1 << 20);
    let in_decode = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            let frame = cache.frame(key(0), 100, 0, |out, _| {
                in_decode.wait();
                // The joiners are counted before they wait; the decode ends once all of them are.
                while cache.stats().joins < 4 {
                    thread::yield_now();
                }
                out.fill(7);
                Ok(())
            });
            assert_eq!(frame.expect("decoded").bytes(), [7; 100]);
        });
        in_decode.wait();
        for _ in 0..4 {
            scope.spawn(|| {
                let frame = cache.frame(key(0), 100, 0, |_, _| panic!("a second decode"));
                assert_eq!(frame.expect("joined").bytes(), [7; 100]);
            });
        }
    });
    assert_eq!(cache.stats().decodes, 1);
}

#[test]
fn the_budget_holds_with_frames_in_readers_hands() {
    let budget = 10 * (cost(size_class(1000)) + cost(0));
    let cache = Cache::new(budget);
    let mut held = Vec::new();
    for frame in 0..10 {
        held.push(cache.frame(key(frame), 1000, 0, fill(1)).expect("fits"));
        assert!(cache.stats().used_bytes <= budget);
    }
    thread::scope(|scope| {
        let waiting = scope.spawn(|| cache.frame(key(10), 1000, 0, fill(2)).map(|_| ()));
        // The reader that finds no room goes on once another lets go, evicted or not.
        held.clear();
        assert_eq!(waiting.join().expect("no panic"), Ok(()));
    });
    for frame in 11..100 {
        drop(cache.frame(key(frame), 1000, 0, fill(3)).expect("evicts"));
        assert!(cache.stats().used_bytes <= budget);
    }
    assert!(cache.find(key(99)).is_some());
    assert!(cache.find(key(11)).is_none());
}

#[test]
fn tiny_frames_count_their_overhead() {
    let cache = Cache::new(100 * OVERHEAD_BYTES);
    for frame in 0..1000 {
        drop(cache.frame(key(frame), 1, 0, fill(1)).expect("evicts"));
    }
    let kept = (0..1000).filter(|frame| cache.find(key(*frame)).is_some());
    assert!(kept.count() < 100);
}

#[test]
fn a_failed_decode_is_not_kept_and_gives_its_room_back() {
    let cache = Cache::new(cost(1024) + cost(0));
    for _ in 0..3 {
        let failed = cache.frame(key(0), 1000, 0, |_, _| Err(Error::NoMemory(1)));
        assert_eq!(failed.err(), Some(Error::NoMemory(1)));
    }
    assert!(cache.frame(key(0), 1000, 0, fill(1)).is_ok());
    assert_eq!(
        cache.frame(key(1), 1025, 0, fill(1)).err(),
        Some(Error::NoMemory(1025))
    );
}

#[test]
fn a_panic_in_a_decode_leaves_no_joiner_waiting() {
    let cache = Cache::new(1 << 20);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        cache.frame(key(0), 10, 0, |_, _| panic!("decode"))
    }));
    assert!(panicked.is_err());
    assert!(cache.frame(key(0), 10, 0, fill(1)).is_ok());
}

#[test]
fn a_waiter_for_room_wakes_when_a_decode_lands() {
    let cache = Cache::new(cost(1024) + cost(0));
    let in_decode = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Held by nobody but the cache once it has landed: only then can it make room.
            let landed = cache.frame(key(0), 1000, 0, |_, _| {
                in_decode.wait();
                while lock(&cache.shared.state).slots.len() < 2 {
                    thread::yield_now();
                }
                Ok(())
            });
            drop(landed.expect("decoded"));
        });
        in_decode.wait();
        assert!(cache.frame(key(1), 1000, 0, fill(1)).is_ok());
    });
}

#[test]
fn a_frame_read_ahead_is_found_and_one_that_is_there_is_not_decoded_again() {
    let cache = Cache::new(1 << 20);
    cache.prefetch(key(0), 100, 0, fill(5));
    let frame = cache.frame(key(0), 100, 0, |_, _| panic!("a second decode"));
    assert_eq!(frame.expect("read ahead").bytes(), [5; 100]);
    cache.prefetch(key(0), 100, 0, |_, _| panic!("a second decode"));
    cache.forget(key(0));
    assert!(cache.find(key(0)).is_none());
    assert_eq!(cache.stats().decodes, 1);
}

#[test]
fn a_frame_read_ahead_is_counted_as_used_or_as_wasted_once() {
    let cache = Cache::new(1 << 20);
    let counted = |cache: &Cache| {
        let stats = cache.stats();
        (stats.ahead, stats.ahead_used, stats.ahead_wasted)
    };
    cache.prefetch(key(0), 100, 50, fill(5));
    cache.prefetch(key(1), 100, 50, fill(6));
    assert_eq!(counted(&cache), (2, 0, 0));
    drop(cache.frame(key(0), 100, 50, |_, _| panic!("a second decode")));
    cache.forget(key(0));
    assert_eq!(counted(&cache), (2, 1, 0));
    cache.forget(key(1));
    assert_eq!(counted(&cache), (2, 1, 1));
    // What was asked for when it was decoded is neither.
    drop(cache.frame(key(2), 100, 50, fill(7)));
    cache.forget(key(2));
    assert_eq!(counted(&cache), (2, 1, 1));
}

#[test]
fn nothing_is_read_ahead_where_readers_hold_all_the_room() {
    let budget = 2 * (cost(size_class(1000)) + cost(0));
    let cache = Cache::new(budget);
    let held: Vec<_> = (0..2)
        .map(|frame| cache.frame(key(frame), 1000, 0, fill(1)).expect("fits"))
        .collect();
    // Returns, though nobody lets go of anything.
    cache.prefetch(key(2), 1000, 0, |_, _| panic!("there is no room"));
    assert!(!cache.contains(key(2)));
    assert!(cache.stats().used_bytes <= budget);
    drop(held);
    cache.prefetch(key(2), 1000, 0, fill(2));
    assert!(cache.contains(key(2)));
}

#[test]
fn a_reader_that_joined_what_was_given_up_decodes_it_himself() {
    let cache = Cache::new(1 << 20);
    let flight = Arc::new(Flight::default());
    lock(&cache.shared.state)
        .slots
        .put(key(0), Slot::Decoding(Arc::clone(&flight)));
    thread::scope(|scope| {
        let reader = scope.spawn(|| cache.frame(key(0), 100, 0, fill(9)));
        while cache.stats().joins == 0 {
            thread::yield_now();
        }
        Landing::new(&cache.shared, key(0), &flight).land(None);
        let frame = reader.join().expect("no panic").expect("decoded");
        assert_eq!(frame.bytes(), [9; 100]);
    });
}

#[test]
fn what_is_used_again_holds_nothing_of_before() {
    let cache = Cache::new(1 << 20);
    drop(cache.frame(key(0), 1000, 500, fill(1)));
    cache.forget(key(0));
    let frame = cache.frame(key(1), 990, 400, |out, stored| {
        assert_eq!((out.len(), stored.len()), (990, 400));
        out.fill(2);
        Ok(())
    });
    assert_eq!(frame.expect("decoded").bytes(), [2; 990]);
}

#[test]
fn buffers_are_made_ready_while_the_budget_has_room_and_nothing_is_given_up_for_them() {
    let cache = Cache::new(1 << 20);
    assert!(!cache.is_short(), "nobody has asked for anything");
    let len = 64 * 1024;
    let decode = |frame: u64| cache.frame(key(frame), len, 100, fill(1)).expect("decoded");
    drop(decode(0));
    assert!(cache.is_short());
    let before = cache.stats().used_bytes;
    cache.prepare();
    assert!(!cache.is_short());
    let ready = cache.stats().used_bytes - before;
    assert!(ready >= len, "{ready} bytes");
    for frame in 1..100 {
        drop(decode(frame));
        cache.prepare();
        assert!(cache.stats().used_bytes <= 1 << 20);
    }
    let decodes = cache.stats().decodes;
    drop(decode(99));
    assert!(!cache.is_short(), "the budget is full");
    assert_eq!(
        cache.stats().decodes,
        decodes,
        "what was decoded is still there"
    );
}
