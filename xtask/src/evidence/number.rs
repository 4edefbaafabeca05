//! Numbers as pages print them, and the units that make one a claim of speed.

/// Units of rates and times. A time that is a setting stands in code, as what a command takes.
const UNITS: [&str; 16] = [
    "tokens/s", "tok/s", "texts/s", "bytes/s", "MB/s", "GB/s", "GiB/s", "TB/s", "GFLOP/s", "TFLOP/s", "steps/s", "ns",
    "us", "µs", "ms", "s",
];

/// Words behind a number that compare speeds.
const COMPARISONS: [&str; 7] =
    ["times as", "times faster", "times slower", "% faster", "% slower", "% quicker", "% of the hand"];

/// What may stand between two numbers that share a unit.
const BETWEEN: [&str; 8] = ["to", "and", "or", "/", ",", "against", "instead of", "-"];

/// A number as it is printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Printed {
    /// Bytes of the text.
    from: usize,
    to: usize,
}

impl Printed {
    /// All numbers of a text that are no part of a word, such as `770`, `33,184`, `0.91`.
    pub(super) fn all(text: &str) -> Vec<Printed> {
        let bytes = text.as_bytes();
        let (mut numbers, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            if !bytes[at].is_ascii_digit() {
                at += 1;
                continue;
            }
            let from = at;
            let digits = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
            while digits(at)
                || (at < bytes.len()
                    && matches!(bytes[at], b',' | b'.')
                    && digits(at + 1)
                    && continues(bytes, from, at))
            {
                at += 1;
            }
            // `x1.09` is a number that compares; `F16` is none.
            let factor = text[..from].strip_suffix('x').filter(|_| text[from..at].contains('.'));
            let begins = !factor.unwrap_or(&text[..from]).ends_with(is_of_word);
            let ends =
                text[at..].strip_prefix('x').unwrap_or(&text[at..]).chars().next().is_none_or(|c| !is_of_word(c));
            if !(begins && ends) {
                while at < bytes.len() && text[at..].starts_with(is_of_word) {
                    at += text[at..].chars().next().map_or(1, char::len_utf8);
                }
                continue;
            }
            numbers.push(Printed { from, to: at });
        }
        numbers
    }

    /// The numbers of a text that claim a speed: those with a unit, and those that share it.
    pub(super) fn claims(text: &str) -> Vec<Printed> {
        let numbers = Printed::all(text);
        let mut claims: Vec<Printed> = Vec::new();
        let mut shares = false;
        for (i, number) in numbers.iter().enumerate().rev() {
            let behind = numbers.get(i + 1).map_or(&text[number.to..], |next| &text[number.to..next.from]);
            let alone = has_unit(&text[number.to..]) || text[..number.from].ends_with('x');
            shares = alone || (shares && BETWEEN.contains(&behind.trim()));
            if shares {
                claims.push(*number);
            }
        }
        claims.reverse();
        claims
    }

    /// Whether it lies between two bytes of its text.
    pub(super) fn is_within(&self, from: usize, to: usize) -> bool {
        from <= self.from && self.to <= to
    }

    /// Whether it is a rate or a factor, which no setting is.
    pub(super) fn is_rate(&self, text: &str) -> bool {
        let behind = text[self.to..].trim_start();
        text[..self.from].ends_with('x')
            || UNITS.iter().any(|unit| unit.len() > 2 && behind.starts_with(unit))
            || is_factor(behind)
    }

    /// As it stands in its text.
    pub(super) fn of<'a>(&self, text: &'a str) -> &'a str {
        &text[self.from..self.to]
    }
}

/// Whether a comma or dot at `at` goes on with the number that began at `from`: before decimals, or between thousands.
fn continues(bytes: &[u8], from: usize, at: usize) -> bool {
    let thousands = bytes[at + 1..].iter().take_while(|b| b.is_ascii_digit()).count() == 3;
    bytes[at] == b'.' && !bytes[from..at].contains(&b'.')
        || bytes[at] == b',' && thousands && !bytes[from..at].contains(&b'.')
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether a text speaks of speed, as the heading of a column does.
pub(super) fn names_unit(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut words = text.split(|c: char| c.is_whitespace() || "(),;:".contains(c));
    words.any(|word| word != "s" && UNITS.iter().any(|unit| unit.to_lowercase() == word))
        || text.contains("times as fast")
}

/// Whether a rate is named: no setting is one.
pub(super) fn names_rate(text: &str) -> bool {
    UNITS.iter().any(|unit| unit.ends_with("/s") && text.contains(unit))
}

/// `1.5 x the default`; `16 x 64` is a size.
fn is_factor(behind: &str) -> bool {
    let after = behind.strip_prefix('x').map(|after| (after.starts_with(is_of_word), after.trim_start()));
    after.is_some_and(|(word, after)| !word && !after.starts_with(|c: char| c.is_ascii_digit()))
}

fn has_unit(behind: &str) -> bool {
    let behind = behind.trim_start();
    let is_whole = |unit: &&&str| behind[unit.len()..].chars().next().is_none_or(|c| !is_of_word(c) && c != '/');
    let unit = UNITS.iter().filter(|unit| behind.starts_with(**unit)).find(is_whole);
    unit.is_some() || is_factor(behind) || COMPARISONS.iter().any(|words| behind.starts_with(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(text: &str) -> Vec<&str> {
        Printed::claims(text).iter().map(|number| number.of(text)).collect()
    }

    #[test]
    fn claims_have_units() {
        assert_eq!(claims("2.9B Q4_K_M writes 770 tokens/s"), ["770"]);
        assert_eq!(claims("in 684 to 698 ms, 8 sequences"), ["684", "698"]);
        assert_eq!(claims("764, 766 and 768 tokens/s of 3"), ["764", "766", "768"]);
        assert_eq!(claims("33,184 tokens/s, x1.09, 1.5 x, 2x, 4.5 TB/s"), ["33,184", "1.09", "1.5", "2", "4.5"]);
        assert_eq!(claims("it is 3 times as fast, or 7 % slower"), ["3", "7"]);
        assert_eq!(claims("H200 with 16 x 8 MiB in 3 s"), ["3"]);
        assert_eq!(claims("512 tokens, 132 workgroups, 24 November 2026, commit 3dab38b, F16, v0.10.20"), [""; 0]);
    }

    #[test]
    fn headings_name_units() {
        assert!(names_unit("decode, tokens/s") && names_unit("load ms") && names_unit("GB/s (share)"));
        assert!(!names_unit("what ends it") && !names_unit("sizes, tokens"));
        assert!(names_rate("191.0 tok/s") && !names_rate("300 s"));
    }
}
