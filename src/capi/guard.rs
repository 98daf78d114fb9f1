//! The boundary: panics stop here, errors become statuses and words, pointers become references.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{ptr, slice};

use nix::errno::Errno;

use super::status::pcapzst_status::{self, *};
use crate::capture::Error;

/// Why a call fails: its status, and what to say of it.
pub(super) struct Refusal {
    status: pcapzst_status,
    words: String,
    errno: Option<i32>,
}

impl Refusal {
    pub(super) fn new(status: pcapzst_status, words: impl Into<String>) -> Self {
        Self {
            status,
            words: words.into(),
            errno: None,
        }
    }

    /// `error`, of the file that is called `name`.
    pub(super) fn of(error: &Error, name: &str) -> Self {
        Self {
            status: error.into(),
            words: format!("{name}: {error}"),
            errno: match error {
                Error::Io { errno, .. } => Some(*errno),
                _ => None,
            },
        }
    }

    pub(super) fn null(what: &str) -> Self {
        Self::new(PCAPZST_E_INVALID, format!("{what} is NULL"))
    }

    /// That another capture was written over the file that is called `name`.
    pub(super) fn replaced(name: &str) -> Self {
        let words = format!("{name}: another capture was written over it");
        Self::new(PCAPZST_E_CHANGED, words)
    }

    pub(super) fn range(words: impl Into<String>) -> Self {
        Self::new(PCAPZST_E_RANGE, words)
    }
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Runs the body of a function that answers with a status.
pub(super) fn call(body: impl FnOnce() -> Result<(), Refusal>) -> pcapzst_status {
    // What a body leaves half done behind a panic stays behind its locks, or in an object that the caller is told not to trust.
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        Err(Refusal::new(
            PCAPZST_E_INTERNAL,
            "a panic; please report it",
        ))
    });
    let Err(refusal) = outcome else {
        return PCAPZST_OK;
    };
    // NULs are none of our words'; a path cannot hold one.
    let words = CString::new(refusal.words).unwrap_or_default();
    // Not while the thread ends, when its variables are gone.
    let _ = LAST_ERROR.try_with(|last| last.replace(words));
    if let Some(errno) = refusal.errno {
        Errno::set_raw(errno);
    }
    refusal.status
}

/// Runs the body of a function without a status; `otherwise` where it panics.
pub(super) fn call_or<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// What the last failed call of this thread was about: file, frame, physical offset, wanted and got, in English. Never NULL; empty
/// before a call failed. Valid until the next failing call of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn pcapzst_last_error() -> *const c_char {
    LAST_ERROR
        .try_with(|last| last.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}

/// Where a result goes: never NULL.
///
/// # Safety
/// `out` is NULL, or may be written to, and nobody else uses it during the call.
pub(super) unsafe fn out<'a, T>(out: *mut T, what: &str) -> Result<&'a mut T, Refusal> {
    // SAFETY: by this function's contract.
    unsafe { out.as_mut() }.ok_or_else(|| Refusal::null(what))
}

/// Sets what a caller is to find zeroed after a failure. For plain C values: all zeros is one of each of ours.
///
/// # Safety
/// As for [`out`].
pub(super) unsafe fn wipe<T>(place: *mut T) {
    if !place.is_null() {
        // SAFETY: by this function's contract.
        unsafe { ptr::write_bytes(place, 0, 1) };
    }
}

/// An object of ours.
///
/// # Safety
/// `object` is NULL, or came from this library and was not closed.
pub(super) unsafe fn object<'a, T>(object: *const T, what: &str) -> Result<&'a T, Refusal> {
    // SAFETY: by this function's contract.
    unsafe { object.as_ref() }.ok_or_else(|| Refusal::null(what))
}

/// The caller's bytes to read; NULL with a size of 0 is none.
///
/// # Safety
/// `data` is NULL, or `size` bytes from it on may be read for as long as `'a`, and nobody writes to them meanwhile.
pub(super) unsafe fn bytes<'a>(
    data: *const c_void,
    size: u64,
    what: &str,
) -> Result<&'a [u8], Refusal> {
    match size {
        0 => Ok(&[]),
        // SAFETY: by this function's contract.
        _ => unsafe { array(data.cast(), size, what) },
    }
}

/// The caller's `count` values to read, one at least.
///
/// # Safety
/// As for [`bytes`], with `count` values for `size` bytes; `data` is aligned.
pub(super) unsafe fn array<'a, T>(
    data: *const T,
    count: u64,
    what: &str,
) -> Result<&'a [T], Refusal> {
    let count = length::<T>(count, what)?;
    if data.is_null() {
        return Err(Refusal::null(what));
    }
    // SAFETY: by this function's contract; length() keeps it within what a slice may be.
    Ok(unsafe { slice::from_raw_parts(data, count) })
}

/// The caller's buffer to fill: its first `size` bytes; NULL with a size of 0 is none.
///
/// # Safety
/// `dst` is NULL, or `size` bytes from it on may be written, and nobody else uses them during the call.
pub(super) unsafe fn buffer<'a>(
    dst: *mut c_void,
    size: u64,
    what: &str,
) -> Result<&'a mut [u8], Refusal> {
    let size = length::<u8>(size, what)?;
    match (dst.is_null(), size) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Refusal::null(what)),
        // SAFETY: by this function's contract; length() keeps it within what a slice may be. Memory from a C caller holds some
        // value in each byte as far as this program can tell: it comes from behind a boundary that no optimiser sees through.
        (false, _) => Ok(unsafe { slice::from_raw_parts_mut(dst.cast(), size) }),
    }
}

/// `count`, if a slice of so many `T` may be.
fn length<T>(count: u64, what: &str) -> Result<usize, Refusal> {
    let may_be = |count: &usize| {
        let bytes = count.checked_mul(size_of::<T>());
        bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok())
    };
    usize::try_from(count)
        .ok()
        .filter(may_be)
        .ok_or_else(|| Refusal::range(format!("{what} is longer than memory")))
}

/// Hands `value` to the caller, who gives it back to [`reclaim`].
pub(super) fn hand_out<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Takes back what [`hand_out`] gave; `None` for NULL.
///
/// # Safety
/// `object` is NULL, or came from [`hand_out`] and was not taken back before.
pub(super) unsafe fn reclaim<T>(object: *mut T) -> Option<Box<T>> {
    // SAFETY: by this function's contract.
    (!object.is_null()).then(|| unsafe { Box::from_raw(object) })
}

/// NULL, where a caller is to find it whatever happens.
///
/// # Safety
/// As for [`out`].
pub(super) unsafe fn out_object<'a, T>(
    place: *mut *mut T,
    what: &str,
) -> Result<&'a mut *mut T, Refusal> {
    // SAFETY: by this function's contract.
    let place = unsafe { out(place, what) }?;
    *place = ptr::null_mut();
    Ok(place)
}
