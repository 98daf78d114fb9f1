//! Reads of open captures, and what the kernel's page cache is to be told of them.

use super::Tree;
use super::errno::Failure;
use super::handle::FileHandle;
use super::stats::Event;
use crate::capture::{Error, OnFault, Pieces};

impl Tree {
    /// Source bytes of the open capture from `offset` on: `size`, or fewer at its end; of a direct handle also fewer
    /// before a fault, which the next read then meets. Blocks on disk and decoding.
    pub fn read(&self, handle: u64, offset: u64, size: usize) -> Result<Pieces, Failure> {
        let handle = self.files.find(handle).ok_or(Failure::Invalid)?;
        let on_fault = if handle.is_direct {
            OnFault::ServeGood
        } else {
            OnFault::Fail
        };
        self.read_of(&handle, offset, size, on_fault)
    }

    /// As [`Self::read`], to fill the kernel's page cache, which takes fewer bytes for the end of the file and has zeros
    /// stand behind it, whatever the handle is: so never fewer before a fault.
    pub fn read_pages(&self, handle: u64, offset: u64, size: usize) -> Result<Pieces, Failure> {
        let handle = self.files.find(handle).ok_or(Failure::Invalid)?;
        self.read_of(&handle, offset, size, OnFault::Fail)
    }

    fn read_of(
        &self,
        handle: &FileHandle,
        offset: u64,
        size: usize,
        on_fault: OnFault,
    ) -> Result<Pieces, Failure> {
        let end = offset.saturating_add(size as u64);
        let opened = self.opened_for(handle, end)?;
        let source = &opened.source;
        // Before the read: the next frames are decoded at the same time.
        handle.read_ahead(source, offset, size);
        let read = || source.read_pieces(offset, size, on_fault);
        let bytes = match read() {
            // A restarted writer may have written again since what it had cut off.
            Err(Error::CutOff) if source.may_grow() => opened.refresh().and_then(|()| Ok(read()?)),
            outcome => outcome.map_err(Failure::from),
        };
        let bytes = bytes.inspect_err(|_| {
            if let Some(capture) = handle.node.capture() {
                capture.update_facts(&opened);
                self.note_fault(&handle.node);
            }
        })?;
        if bytes.is_empty() && handle.hides_end(&opened, offset) {
            return Err(Failure::Stale);
        }
        self.stats.count(Event::Read(bytes.len()));
        Ok(bytes)
    }

    /// As [`Self::read`], if the bytes are decoded already and all there; never blocks.
    #[must_use]
    pub fn read_cached(&self, handle: u64, offset: u64, size: usize) -> Option<Pieces> {
        let handle = self.files.find(handle)?;
        let source = &handle.last_opened()?.source;
        // Where it ends is for a look to tell: it may grow, or be another file by now.
        let bytes = source
            .read_cached(offset, size)
            .filter(|bytes| bytes.len() == size)?;
        handle.read_ahead(source, offset, size);
        self.stats.count(Event::Read(bytes.len()));
        Some(bytes)
    }

    /// Whether [`Self::read`] may walk the file, or wait for a walk, before it gives these bytes; never blocks.
    #[must_use]
    pub fn walks_first(&self, handle: u64, offset: u64, size: usize) -> bool {
        self.files.find(handle).is_some_and(|handle| {
            let source = &handle.opened.source;
            let is_behind_end = offset.saturating_add(size as u64) > source.size();
            source.is_walked_anew() || source.may_grow() && is_behind_end
        })
    }

    /// Notes that the kernel has sent a read to fill its page cache: any of a page-cached handle; of a direct one for mmap,
    /// splice or sendfile. Before that read is queued: an open drops what a page-cached inode held before its first read,
    /// and so would wait in the kernel for the reads that are on their way.
    pub fn note_paged(&self, handle: u64) {
        if let Some(handle) = self.files.find(handle)
            && let Some(capture) = handle.node.capture()
        {
            if handle.is_direct {
                capture.note_mapped();
            } else {
                capture.note_cached(handle.stamp);
            }
        }
    }

    /// The offset from which on the kernel's pages of the inode have to go before it is told `size`. For attributes that
    /// are [`super::attr::Attributes::is_mapped`]; called from one thread, which then tells the size.
    #[must_use]
    pub fn pages_to_drop(&self, id: u64, size: u64) -> Option<u64> {
        let node = self.nodes.node(id)?;
        node.capture()?.pages_to_drop(size)
    }

    /// The byte before `size` in the capture of the inode, and its offset; `None` if it cannot be had. Blocks on disk and
    /// decoding.
    #[must_use]
    pub fn last_byte(&self, id: u64, size: u64) -> Option<(u64, u8)> {
        let offset = size.checked_sub(1)?;
        let opened = self.nodes.node(id)?.capture()?.opened()?;
        let bytes = opened.source.read(offset, 1, OnFault::Fail).ok()?;
        Some((offset, *bytes.first()?))
    }
}
