//! A progress bar on a terminal, and nothing in a pipe.

use std::io::IsTerminal;

use crate::plain::Plain;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over `total` bytes, named `what`; hidden unless stderr is a terminal.
pub(super) fn bar(total: u64, what: String) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar =
        ProgressBar::with_draw_target(Some(total), target).with_message(Plain(what).to_string());
    let template = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
