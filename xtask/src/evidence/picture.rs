//! Whether a picture (SVG) shows speeds.

use super::number::{Printed, names_unit};

/// Whether a label names a unit of speed and another one is a number.
pub(super) fn shows_speeds(drawn: &str) -> bool {
    let texts = drawn.split('<').filter_map(|element| element.strip_prefix("text")?.rsplit_once('>'));
    let labels: Vec<&str> = texts.map(|(_, text)| text.trim()).collect();
    let is_number = |label: &&str| Printed::all(label).first().is_some_and(|number| number.of(label) == *label);
    labels.iter().any(|label| names_unit(label)) && labels.iter().any(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_with_a_unit_and_numbers_shows_speeds() {
        assert!(shows_speeds("<svg><text x=\"1\">One, tokens/s</text><text y=\"1\">25,816</text></svg>"));
        assert!(!shows_speeds("<svg><text>bits per byte</text><text>0.5</text></svg>"));
        assert!(!shows_speeds("<svg><text>in ms</text><text>RWKV-7 2.9B</text></svg>"));
    }
}
