//! Damage by chance: the same generator gives the same damage.

use fastrand::Rng;

/// Numbers at which readers of text go wrong.
const NUMBERS: [&str; 12] = [
    "0",
    "-1",
    "1",
    "255",
    "65535",
    "65536",
    "4294967295",
    "18446744073709551615",
    "99999999999999999999",
    "1e308",
    "nan",
    "0x10",
];

/// Texts at which they do.
const TEXTS: [&str; 12] =
    ["", " ", "\u{1b}[7m", "\0", "\n", "\"", "[[[[[[[[", "))))))))", "null", "\u{202e}", "../../x", "//"];

/// Words for numbers of a binary file.
const WORDS: [u64; 8] = [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];

/// Damages an input in a few places.
pub(super) fn mutated(valid: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = valid.to_vec();
    let is_text = std::str::from_utf8(valid).is_ok();
    for _ in 0..=rng.usize(..3) {
        if is_text && rng.u8(..4) > 0 { text(&mut bytes, rng) } else { binary(&mut bytes, rng) }
    }
    bytes
}

/// Where headers are, places are likelier.
fn place(len: usize, rng: &mut Rng) -> usize {
    let near = if rng.bool() { len } else { len.min(4096) };
    rng.usize(..near.max(1)).min(len)
}

fn binary(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let at = place(bytes.len(), rng);
    let len = rng.usize(..64).min(bytes.len() - at);
    match rng.u8(..8) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..at + len)),
        2 => {
            let copy = bytes[at..at + len].to_vec();
            let to = place(bytes.len(), rng);
            bytes.splice(to..to, copy);
        }
        3 => bytes[at..at + len].fill(if rng.bool() { 0 } else { 0xff }),
        4 | 5 => {
            let word = WORDS[rng.usize(..WORDS.len())].to_le_bytes();
            let len = [1, 2, 4, 8][rng.usize(..4)].min(bytes.len() - at);
            bytes[at..at + len].copy_from_slice(&word[..len]);
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << rng.u8(..8);
            }
        }
    }
}

/// Damages a token or a line of a text.
fn text(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let damaged = if rng.u8(..4) == 0 { lines(&text, rng) } else { token(&text, rng) };
    *bytes = damaged.into_bytes();
}

fn lines(text: &str, rng: &mut Rng) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let at = rng.usize(..lines.len().max(1));
    let other = rng.usize(..lines.len().max(1));
    match rng.u8(..3) {
        _ if lines.is_empty() => {}
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[other]),
        _ => lines.swap(at, other),
    }
    lines.concat()
}

fn token(text: &str, rng: &mut Rng) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = if is_word(first) { rest.find(|c| !is_word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        tokens.push(&rest[..end]);
        rest = &rest[end..];
    }
    if tokens.is_empty() {
        return TEXTS[rng.usize(..TEXTS.len())].to_owned();
    }
    let (at, other) = (rng.usize(..tokens.len()), rng.usize(..tokens.len()));
    let numbers: Vec<usize> =
        (0..tokens.len()).filter(|i| tokens[*i].starts_with(|c: char| c.is_ascii_digit())).collect();
    let many = tokens[at].repeat(5000);
    match rng.u8(..8) {
        0..=2 if !numbers.is_empty() => {
            tokens[numbers[rng.usize(..numbers.len())]] = NUMBERS[rng.usize(..NUMBERS.len())];
        }
        0 | 3 => drop(tokens.remove(at)),
        1 | 4 => tokens[at] = tokens[other],
        2 | 5 => tokens.insert(at, TEXTS[rng.usize(..TEXTS.len())]),
        6 => tokens.swap(at, other),
        _ => tokens[at] = &many,
    }
    tokens.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_damage() {
        for valid in [&b"(a: 1, b: [2, 3])\n// c\n"[..], &[0xff, 0, 1, 2, 3], b""] {
            let all = |seed| {
                let mut rng = Rng::with_seed(seed);
                (0..300).map(|_| mutated(valid, &mut rng)).collect::<Vec<_>>()
            };
            assert_eq!(all(1), all(1));
            let is_empty = valid.is_empty();
            assert!(is_empty || all(1) != all(2));
            assert!(is_empty || all(3).iter().filter(|bytes| *bytes != valid).count() > 150);
        }
    }
}
