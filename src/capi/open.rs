//! Readers: opened by path, descriptor or memory, and closed.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::guard::{Refusal, call, call_or, hand_out, out_object, reclaim, wipe};
use super::reader::pcapzst_reader;
use super::status::pcapzst_status::{self, *};
use crate::capture::live::{Live, known_path};
use crate::capture::read_at::ReadAt;
use crate::capture::{CACHE_SIZE, Engine, Error, Form, MAX_FRAME_SIZE, State};
use crate::format::{Fault, FaultKind};
use crate::tree::place::Place;

/// How to open a reader. All zeros, as NULL in its place, is the default.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct pcapzst_reader_options {
    /// Bytes of memory for decoded frames, at most; 0 for 256 MiB. What pcapzst_read touches is kept.
    pub cache_size: u64,
    /// The largest frame that is decoded, in source bytes; 0 for 64 MiB. Never more than a quarter of cache_size.
    pub max_frame_size: u64,
}

/// Opens the capture at `path`, and walks what is there: a few bytes of each block are read.
///
/// `path` may be either name of a capture that is being written: where there is no file `x.pcap.zst`, `x.pcap.zst.partial` is
/// opened, and the other way round. A file whose last bytes are torn is no error: pcapzst_get_info says so.
///
/// `options` may be NULL. `*out` is a reader to be closed with pcapzst_close, or NULL on failure. `format_version` may be NULL; it
/// receives the version in the file's marker, also when that is refused (PCAPZST_E_VERSION), or 0 where there is none.
///
/// PCAPZST_E_IO, _NOT_MARKED, _VERSION, _FORMAT (a broken marker or header frame; later faults are told when they are met), _ZSTD,
/// _NOMEM, _INVALID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_open(
    path: *const c_char,
    options: *const pcapzst_reader_options,
    out: *mut *mut pcapzst_reader,
    format_version: *mut u32,
) -> pcapzst_status {
    let open = |options| {
        // SAFETY: the caller's pointer, as the header asks for.
        let path = unsafe { path_of(path) }?;
        let fail = |error: Error| Refusal::of(&error, &path.to_string_lossy());
        let (file, place) = Place::open_as(path, Some(Form::Zst)).map_err(fail)?;
        let name = place.path.to_string_lossy().into_owned();
        open_file(file, &place, name, options)
    };
    // SAFETY: the caller's pointers, as the header asks for.
    unsafe { hand_out_reader(options, out, format_version, open) }
}

/// As pcapzst_open, for an open file. The descriptor is duplicated: the caller's own stays his to close, and its position is
/// neither used nor moved. Whether the capture is still being written is told by the path that the kernel knows the file by.
///
/// Besides what pcapzst_open gives: PCAPZST_E_IO with EINVAL for what is no regular file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_open_fd(
    fd: c_int,
    options: *const pcapzst_reader_options,
    out: *mut *mut pcapzst_reader,
    format_version: *mut u32,
) -> pcapzst_status {
    let open = |options| {
        let name = format!("descriptor {fd}");
        let fail = |error: io::Error| Refusal::of(&Error::io("opening")(error), &name);
        if fd < 0 {
            return Err(fail(io::Error::from_raw_os_error(libc::EBADF)));
        }
        // SAFETY: not negative; a number that is no descriptor is told by the kernel.
        let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
        let file = File::from(borrowed.try_clone_to_owned().map_err(fail)?);
        let own = file.metadata().map_err(fail)?;
        if !own.is_file() {
            return Err(fail(io::Error::from_raw_os_error(libc::EINVAL)));
        }
        let link = std::fs::read_link(format!("/proc/self/fd/{fd}")).map_err(fail)?;
        let path = known_path(&file, &own).unwrap_or(link);
        let place = Place::of_open(&file, &path)
            .map_err(|error| Refusal::of(&error, &path.to_string_lossy()))?;
        open_file(file, &place, path.to_string_lossy().into_owned(), options)
    };
    // SAFETY: the caller's pointers, as the header asks for.
    unsafe { hand_out_reader(options, out, format_version, open) }
}

/// As pcapzst_open, for a whole capture in memory: `size` bytes from `data` on. They are borrowed: they must stay as they are until
/// the reader and every record iterator of it are closed, and stay the caller's. What is refused in a file is refused here.
///
/// A size of 0, or NULL, is PCAPZST_E_INVALID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_open_memory(
    data: *const c_void,
    size: u64,
    options: *const pcapzst_reader_options,
    out: *mut *mut pcapzst_reader,
    format_version: *mut u32,
) -> pcapzst_status {
    let open = |options| {
        if size == 0 {
            return Err(Refusal::new(PCAPZST_E_INVALID, "size is 0"));
        }
        // SAFETY: the caller's pointer, as the header asks for; 'static stands for "until the last reader of them is closed", which the caller promises.
        let bytes: &'static [u8] = unsafe { super::guard::bytes(data, size, "data") }?;
        let name = "capture in memory".to_owned();
        let engine = engine(options);
        let live = Live::in_memory(&engine, Box::new(Borrowed(bytes)))
            .map_err(|error| Refusal::of(&error, &name))?;
        Ok(pcapzst_reader::new(live, name))
    };
    // SAFETY: the caller's pointers, as the header asks for.
    unsafe { hand_out_reader(options, out, format_version, open) }
}

/// Closes a reader. NULL is fine. Not while another thread uses it; record iterators of it may stay open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcapzst_close(reader: *mut pcapzst_reader) {
    // SAFETY: the caller's pointer, as the header asks for.
    call_or((), || drop(unsafe { reclaim(reader) }));
}

/// A caller's bytes.
struct Borrowed(&'static [u8]);

impl ReadAt for Borrowed {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        ReadAt::len(self.0)
    }
}

/// Clears the out-parameters, and hands out the reader that `open` opens by the options, unless it is refused.
///
/// # Safety
/// Each pointer is NULL or points to what it says.
unsafe fn hand_out_reader(
    options: *const pcapzst_reader_options,
    out: *mut *mut pcapzst_reader,
    format_version: *mut u32,
    open: impl FnOnce(pcapzst_reader_options) -> Result<pcapzst_reader, Refusal>,
) -> pcapzst_status {
    call(|| {
        // SAFETY: by this function's contract.
        let (out, options) = unsafe {
            wipe(format_version);
            (out_object(out, "out")?, options.as_ref())
        };
        let reader = open(options.copied().unwrap_or_default())?;
        let refused = refusal(&reader);
        let version = match refused.as_ref().map(|fault| &fault.kind) {
            Some(FaultKind::UnknownVersion { got }) => u32::from(*got),
            _ if reader.has_marker() => super::PCAPZST_FORMAT_VERSION_MAX,
            _ => 0,
        };
        // SAFETY: by this function's contract.
        if let Some(place) = unsafe { format_version.as_mut() } {
            *place = version;
        }
        if let Some(fault) = refused {
            return Err(reader.refusal(&Error::Fault(fault)));
        }
        *out = hand_out(reader);
        Ok(())
    })
}

/// Why nothing of the file can be shown, if that is so.
fn refusal(reader: &pcapzst_reader) -> Option<Fault> {
    let facts = reader.live().source().facts();
    facts.error.filter(|_| facts.state == State::Refused)
}

fn engine(options: pcapzst_reader_options) -> Arc<Engine> {
    let or_default = |given: u64, default: u64| if given == 0 { default } else { given };
    let cache_size = or_default(options.cache_size, CACHE_SIZE);
    let max_frame_size = or_default(options.max_frame_size, MAX_FRAME_SIZE);
    // A follower holds a frame while it decodes another, with the physical bytes of that.
    let max_frame_size = max_frame_size.min(cache_size / 4);
    Arc::new(Engine::new(cache_size, max_frame_size).without_threads())
}

fn open_file(
    file: File,
    place: &Place,
    name: String,
    options: pcapzst_reader_options,
) -> Result<pcapzst_reader, Refusal> {
    // Whatever its name says: a raw capture is refused for its missing marker.
    let names = place.names().filter(|_| place.form == Form::Zst);
    let live = Live::open(&engine(options), file, Form::Zst, names)
        .map_err(|error| Refusal::of(&error, &name))?;
    Ok(pcapzst_reader::new(live, name))
}

/// # Safety
/// `path` is NULL or ends in NUL.
pub(super) unsafe fn path_of<'a>(path: *const c_char) -> Result<&'a Path, Refusal> {
    if path.is_null() {
        return Err(Refusal::null("path"));
    }
    // SAFETY: by this function's contract.
    let path = unsafe { CStr::from_ptr(path) };
    Ok(Path::new(OsStr::from_bytes(path.to_bytes())))
}
