//! Numbers for people.

use wgoose_measure::stats::Comparison;

/// Nanoseconds in the unit that suits them, to three digits.
pub(super) fn time(ns: f64) -> String {
    let (scale, unit) = match ns {
        ns if ns < 1e3 => (1.0, "ns"),
        ns if ns < 1e6 => (1e3, "µs"),
        ns if ns < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{} {unit}", digits(ns / scale))
}

/// Three digits that matter; more before the point where there are more.
pub(super) fn digits(x: f64) -> String {
    match x.abs() {
        a if !(1e-3..1e6).contains(&a) && a > 0.0 => format!("{x:.2e}"),
        a if a >= 99.95 => format!("{x:.0}"),
        a if a >= 9.995 => format!("{x:.1}"),
        _ => format!("{x:.2}"),
    }
}

/// How many times as fast.
pub(crate) fn gain(x: f64) -> String {
    if x < 99.95 { format!("×{x:.2}") } else { format!("×{}", digits(x)) }
}

/// How many times as fast a comparison finds its candidate: the one form in which tables and charts show it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    /// At the median.
    pub(crate) gain: f64,
    /// Ends of the 95 % interval.
    pub(crate) interval: [f64; 2],
}

impl Ratio {
    pub(crate) fn of(comparison: &Comparison) -> Self {
        let interval = [comparison.interval.low.exp(), comparison.interval.high.exp()];
        Ratio { gain: comparison.log_ratio.exp(), interval }
    }

    /// `×1.22`
    pub(crate) fn gain(&self) -> String {
        gain(self.gain)
    }

    /// `×1.19 to ×1.25`
    pub(crate) fn ends(&self) -> String {
        self.interval.map(gain).join(" to ")
    }
}

/// A number with its thousands apart.
pub(super) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 THING` or `N THINGs`.
pub(super) fn of(n: usize, thing: &str) -> String {
    format!("{} {thing}{}", count(n as u64), if n == 1 { "" } else { "s" })
}

/// A moment in seconds since 1970, as ISO 8601 has it, in UTC; `None` beyond the years 1970 to 9999.
pub(crate) fn utc(seconds: f64) -> Option<String> {
    if !(0.0..253_402_300_800.0).contains(&seconds) {
        return None;
    }
    let seconds = seconds as u64;
    let (days, second) = (seconds / 86400, seconds % 86400);
    // Eras of 400 years that begin with March, so that a leap day is the last of its year (H. Hinnant,
    // "chrono-compatible low-level date algorithms").
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    let year = 400 * era + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [9.994, 10.0, 1e3, 14_561.4, 2e6, 3.2e9].map(time),
            ["9.99 ns", "10.0 ns", "1.00 µs", "14.6 µs", "2.00 ms", "3.20 s"]
        );
        assert_eq!([0, 999, 1000, 9_116_000].map(count), ["0", "999", "1,000", "9,116,000"]);
        assert_eq!([0.5, 2.033, 123.4].map(gain), ["×0.50", "×2.03", "×123"]);
        let ratio = Ratio { gain: 1.2159, interval: [0.985, 123.4] };
        assert_eq!([ratio.gain(), ratio.ends()], ["×1.22", "×0.98 to ×123"]);
    }

    #[test]
    fn moments_are_dates() {
        let date = |seconds| utc(seconds).unwrap_or_default();
        assert_eq!(date(0.0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_400.0), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_795_523_059.6), "2026-11-24T12:24:19Z");
        assert_eq!(date(253_402_300_799.0), "9999-12-31T23:59:59Z");
        assert_eq!([-1.0, 1e300, f64::NAN].map(utc), [None, None, None]);
    }
}
