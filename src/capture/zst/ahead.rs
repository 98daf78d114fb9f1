//! Decodes of frames that nobody has asked for yet.

use std::ops::Range;
use std::sync::Arc;

use super::Zst;
use super::limit::check_limit;
use crate::capture::Engine;
use crate::capture::medium::Medium;
use crate::capture::prefetch::Pattern;
use crate::capture::route::bring_all;
use crate::capture::sync::read;
use crate::capture::view::Place;
use crate::format::{FrameName, SourceOffset};

impl Zst {
    /// Has the frames decoded that start in `range`, as long as there are threads for it.
    pub(in crate::capture) fn prefetch(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        pattern: &Arc<Pattern>,
        range: Range<u64>,
    ) {
        // Where a read costs a round trip, as many reads as there are processors would not fill the link.
        let is_remote = self.file.medium() == Medium::Remote;
        for place in self.places(&range) {
            if engine.cache.contains(place.key()) {
                continue;
            }
            if is_remote {
                let start = place.span.phys_start.as_u64();
                bring_all(
                    &*self.file,
                    start..start.saturating_add(place.span.phys_len),
                );
            }
            let job = {
                let (zst, engine, pattern) =
                    (Arc::clone(self), Arc::clone(engine), Arc::clone(pattern));
                move || {
                    // The reader may have been faster.
                    if pattern.is_before(place.span.src_end().as_u64()) {
                        zst.decode_ahead(&engine, &place);
                    }
                }
            };
            if !engine.run_ahead(job) {
                return pattern.stopped_at(place.span.src_start.as_u64());
            }
        }
    }

    /// Lets go of the decoded frames that end in `range`.
    pub(in crate::capture) fn forget(&self, engine: &Engine, range: Range<u64>) {
        for place in self.places(&range) {
            if place.span.src_end().as_u64() <= range.end {
                engine.cache.forget(place.key());
            }
        }
    }

    /// The frames that hold bytes of `range`.
    pub(super) fn places(&self, range: &Range<u64>) -> Vec<Place> {
        let view = read(&self.view);
        let end = range.end.min(view.extent().frontier);
        let mut places = Vec::new();
        let mut at = range.start;
        while at < end
            && let Some(place) = view.find(SourceOffset::new(at))
        {
            at = place.span.src_end().as_u64();
            places.push(place);
        }
        places
    }

    fn decode_ahead(&self, engine: &Engine, place: &Place) {
        let span = &place.span;
        if check_limit(engine, span, FrameName::Data(place.index)).is_ok() {
            engine
                .cache
                .prefetch(place.key(), span.src_len, span.phys_len, |out, stored| {
                    self.decode(engine, place, out, stored)
                });
        }
    }
}
