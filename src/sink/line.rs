//! A log line as text: one line, with a time that needs no time zone.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

const DAY_SECS: u64 = 24 * 60 * 60;

/// `text` on one line: control characters as escapes, so that no file's name forges a line or speaks to a terminal.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    line
}

/// `time` in UTC, as RFC 3339 writes it, to the millisecond.
pub(super) fn utc(time: SystemTime) -> String {
    // Before 1970 the clock is wrong, and so may be the line.
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (year, month, day) = date(since.as_secs() / DAY_SECS);
    let secs = since.as_secs() % DAY_SECS;
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write!(
        text,
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        secs / 3600,
        secs / 60 % 60,
        secs % 60,
        since.subsec_millis()
    );
    text
}

/// Year, month and day of the day that comes `days` after 1 January 1970. Years begin in March here, so that the leap day
/// is a year's last (the method of Howard Hinnant, "chrono-compatible low-level date algorithms").
fn date(days: u64) -> (u64, u64, u64) {
    // Days from 1 March 0000 on; an era is the 400 years after which the calendar repeats.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_utc_and_know_leap_days() {
        // As `date -u -d @SECONDS` gives them.
        for (secs, wanted) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_399, "2000-02-28T23:59:59.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (951_868_800, "2000-03-01T00:00:00.007Z"),
            (1_796_028_919, "2026-11-30T08:55:19.007Z"),
            (1_798_761_599, "2026-12-31T23:59:59.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            let time = UNIX_EPOCH + Duration::new(secs, 7_000_000);
            assert_eq!(utc(time), wanted, "{secs}");
        }
        assert_eq!(
            utc(UNIX_EPOCH - Duration::from_secs(1)),
            "1970-01-01T00:00:00.000Z"
        );
    }

    #[test]
    fn no_name_forges_a_line_or_speaks_to_a_terminal() {
        let name = "a.pcap\npcapzst: all is well\r\x1b[2J\u{9b}é\\";
        assert_eq!(
            one_line(name),
            "a.pcap\\npcapzst: all is well\\r\\u{1b}[2J\\u{9b}é\\"
        );
    }
}
