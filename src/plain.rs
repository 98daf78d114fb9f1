//! Text for people: one line is one line.
//!
//! Names are bytes of whoever made the file. A newline in one would begin a line of its own in a log, and an escape
//! sequence would be obeyed by the terminal. JSON has its own escapes.

use std::fmt::{self, Display, Write};

/// `T` as it is, but for control characters, which become escapes such as `\n` and `\u{1b}`.
pub(crate) struct Plain<T>(pub(crate) T);

impl<T: Display> Display for Plain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|letter| self.write_char(letter))
    }

    fn write_char(&mut self, letter: char) -> fmt::Result {
        if is_control(letter) {
            write!(self.0, "{}", letter.escape_default())
        } else {
            self.0.write_char(letter)
        }
    }
}

/// Control characters of both sets, what Unicode calls an end of a line, and what turns the direction of the text.
fn is_control(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_all_else_is_as_it_was() {
        let plain = |text: &str| Plain(text).to_string();
        assert_eq!(plain("a\nb\r\tc\u{7f}"), "a\\nb\\r\\tc\\u{7f}");
        assert_eq!(plain("\u{1b}[2J\u{9b}31m"), "\\u{1b}[2J\\u{9b}31m");
        assert_eq!(plain("x\u{2028}y\u{202e}z"), "x\\u{2028}y\\u{202e}z");
        assert_eq!(plain("é \\ ' \u{fffd} 日"), "é \\ ' \u{fffd} 日");
    }
}
