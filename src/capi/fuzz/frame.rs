//! The frames of a capture in memory, by number, and what a read has to give by them.

use super::super::pcapzst_status::{self, *};
use super::super::*;
use super::{FRAME_MOST, Open};

/// A frame, and its source bytes if it decodes.
pub(super) struct Frame {
    pub(super) info: pcapzst_frame_info,
    pub(super) bytes: Result<Vec<u8>, pcapzst_status>,
}

impl Open<'_> {
    /// All frames: end to end from the prologue on, within what is there; each decoded.
    pub(super) fn frames(&self) -> Vec<Frame> {
        let mut source = if self.info.prologue_size == 0 { 0 } else { 24 };
        let mut physical = self.info.prologue_size;
        let mut frames: Vec<Frame> = Vec::new();
        // SAFETY: an open reader.
        let count = unsafe { pcapzst_frame_count(self.reader) };
        assert_eq!(count, self.info.frames);
        for index in 0..count {
            let info = self
                .frame_info(index)
                .unwrap_or_else(|status| panic!("{index}: {status:?}"));
            assert_eq!(info.source_offset, source, "end to end");
            assert!(info.physical_offset >= physical && info.source_size > 0);
            source += info.source_size;
            physical = info.physical_offset + info.physical_size;
            let bytes = self.decode(index, &info);
            for offset in [info.source_offset, source - 1] {
                let mut found = 0;
                // SAFETY: an open reader, and a place of ours.
                let status = unsafe { pcapzst_find_frame(self.reader, offset, &raw mut found) };
                assert_eq!((status, found), (PCAPZST_OK, index));
            }
            frames.push(Frame { info, bytes });
        }
        assert!(physical <= self.info.physical_size);
        assert_eq!(source, self.info.source_size);
        assert_eq!(self.frame_info(count).err(), Some(PCAPZST_E_RANGE));
        assert_eq!(self.frame_info(u64::MAX).err(), Some(PCAPZST_E_RANGE));
        frames
    }

    fn frame_info(&self, index: u64) -> Result<pcapzst_frame_info, pcapzst_status> {
        let mut info = pcapzst_frame_info {
            source_offset: 0,
            source_size: 0,
            physical_offset: 0,
            physical_size: 0,
        };
        // SAFETY: an open reader, and a place of ours.
        let status = unsafe { pcapzst_frame_info_at(self.reader, index, &raw mut info) };
        if status == PCAPZST_OK {
            Ok(info)
        } else {
            Err(status)
        }
    }

    /// Frame number `index`, decoded into a buffer that is one byte too long, and refused for one that is too short.
    fn decode(&self, index: u64, info: &pcapzst_frame_info) -> Result<Vec<u8>, pcapzst_status> {
        if info.source_size > FRAME_MOST {
            let mut byte = 0_u8;
            // Before there is a buffer of that size.
            // SAFETY: an open reader, and one byte of ours.
            let status =
                unsafe { pcapzst_decode_frame(self.reader, index, (&raw mut byte).cast(), 1) };
            assert_eq!((status, byte), (PCAPZST_E_RANGE, 0));
            return Err(PCAPZST_E_LIMIT);
        }
        let len = usize::try_from(info.source_size).unwrap_or(0);
        let mut bytes = vec![0xA5; len + 1];
        // SAFETY: an open reader, and a buffer of ours of that length.
        let short = unsafe {
            pcapzst_decode_frame(
                self.reader,
                index,
                bytes.as_mut_ptr().cast(),
                len as u64 - 1,
            )
        };
        assert!(short == PCAPZST_E_RANGE && bytes.iter().all(|byte| *byte == 0xA5));
        // SAFETY: as above.
        let status = unsafe {
            pcapzst_decode_frame(
                self.reader,
                index,
                bytes.as_mut_ptr().cast(),
                len as u64 + 1,
            )
        };
        assert_eq!(bytes.pop(), Some(0xA5), "a byte behind the frame");
        let mut batch = vec![0xA5_u8; len];
        let (mut failed, dst, size) = (7, batch.as_mut_ptr().cast(), len as u64);
        // SAFETY: as above; one slot.
        let batched = unsafe {
            pcapzst_decode_frames(
                self.reader,
                &raw const index,
                1,
                &raw const dst,
                &raw const size,
                0,
                &raw mut failed,
            )
        };
        assert_eq!(
            (batched, failed == PCAPZST_SLOT_NONE),
            (status, status == PCAPZST_OK)
        );
        if status == PCAPZST_OK {
            assert!(batch == bytes, "the batch gives other bytes");
            return Ok(bytes);
        }
        assert!(batch.iter().all(|byte| *byte == 0), "what failed is zeroed");
        assert!(
            matches!(status, PCAPZST_E_ZSTD | PCAPZST_E_FORMAT | PCAPZST_E_LIMIT),
            "{status:?}"
        );
        Err(status)
    }

    /// The stored bytes are the file's; prologue and frames make a capture of the same source.
    pub(super) fn stored(&self, file: &[u8]) {
        let len = usize::try_from(self.info.prologue_size).unwrap_or(0);
        let mut sent = vec![0_u8; len];
        // SAFETY: an open reader, and a buffer of ours of that length.
        let status =
            unsafe { pcapzst_read_prologue(self.reader, sent.as_mut_ptr().cast(), len as u64) };
        assert_eq!(status == PCAPZST_E_TORN, len == 0);
        assert!(file.starts_with(&sent));
        for index in 0..self.info.frames {
            let Ok(info) = self.frame_info(index) else {
                panic!("frame {index} was there");
            };
            let len = usize::try_from(info.physical_size).unwrap_or(0);
            let mut stored = vec![0_u8; len];
            // SAFETY: as above.
            let status = unsafe {
                pcapzst_read_stored(self.reader, index, stored.as_mut_ptr().cast(), len as u64)
            };
            assert_eq!(status, PCAPZST_OK);
            let start = usize::try_from(info.physical_offset).unwrap_or(0);
            assert!(
                stored == file[start..start + len],
                "other bytes than the file's"
            );
            sent.extend(stored);
        }
        if len > 0 {
            let Some(relayed) = Open::new(&sent) else {
                panic!("prologue and frames are no capture");
            };
            assert_eq!(
                (relayed.info.source_size, relayed.info.frames),
                (self.info.source_size, self.info.frames)
            );
            assert!(!relayed.has_walk_fault, "nothing but whole frames was sent");
        }
    }
}

/// What a read gives by the global header and the frames: bytes up to the first frame that fails, its status if that is the first,
/// `None` behind the last.
pub(super) fn expected(
    head: &[u8],
    frames: &[Frame],
    offset: u64,
    len: usize,
) -> Result<Vec<u8>, Option<pcapzst_status>> {
    let mut bytes = Vec::new();
    if len == 0 {
        return Ok(bytes);
    }
    if let Some(rest) = usize::try_from(offset)
        .ok()
        .and_then(|start| head.get(start..))
    {
        bytes.extend(rest.iter().take(len));
    }
    while bytes.len() < len {
        let at = offset + bytes.len() as u64;
        let within = |frame: &&Frame| {
            let start = frame.info.source_offset;
            (start..start + frame.info.source_size).contains(&at)
        };
        let failed = match frames.iter().find(within) {
            Some(Frame {
                info,
                bytes: Ok(content),
            }) => {
                let start = usize::try_from(at - info.source_offset).unwrap_or(usize::MAX);
                let most = len - bytes.len();
                bytes.extend(content[start..].iter().take(most));
                continue;
            }
            Some(Frame {
                bytes: Err(status), ..
            }) => Some(*status),
            None => None,
        };
        if bytes.is_empty() {
            return Err(failed);
        }
        break;
    }
    Ok(bytes)
}
