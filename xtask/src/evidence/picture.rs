//! The figures in a picture (SVG) that speaks of speed.

use super::number::{Printed, names_unit};

/// A label that is a number.
#[derive(Debug, PartialEq)]
pub(super) struct Label<'a> {
    pub(super) text: &'a str,
    /// Whether the bar before it is as long as the number says, beside the others below the same heading; true without a bar.
    pub(super) has_its_bar: bool,
}

/// The labels that are numbers; none where no label speaks of speed.
pub(super) fn labels(drawn: &str) -> Vec<Label<'_>> {
    let mut labels = Vec::new();
    // Units of length for one of the figure: a heading begins another scale.
    let (mut scale, mut bar, mut speaks) = (None, None, false);
    for element in drawn.split('<') {
        if let Some(rect) = element.strip_prefix("rect ") {
            bar = rect.split_once("width=\"").and_then(|(_, width)| width.split('"').next()?.parse::<f64>().ok());
        }
        let Some((_, text)) = element.strip_prefix("text").and_then(|text| text.rsplit_once('>')) else { continue };
        let text = text.trim();
        let Some(number) = Printed::all(text).first().copied().filter(|number| number.of(text) == text) else {
            if names_unit(text) {
                (scale, speaks) = (None, true);
            }
            continue;
        };
        let fits = |width: f64| {
            let scale = *scale.get_or_insert(width / number.value());
            // Drawn to whole units.
            (width - scale * number.value()).abs() <= 1.0
        };
        labels.push(Label { text, has_its_bar: bar.take().is_none_or(fits) });
    }
    if speaks { labels } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_numbers() {
        let bar = |width, text: &str| format!("<rect x=\"1\" width=\"{width}\"/><text y=\"1\">{text}</text>");
        let drawn = |third| {
            let [first, second, third] = [bar(77, "770"), bar(38, "381"), bar(third, "25,816")];
            format!(
                "<svg><text>One, tokens/s</text>{first}{second}<text>Two, tokens/s</text>{third}{}</svg>",
                bar(50, "12,908")
            )
        };
        let wrong = |drawn: &str| labels(drawn).iter().map(|label| label.has_its_bar).collect::<Vec<_>>();
        assert_eq!(wrong(&drawn(100)), [true; 4]);
        assert_eq!(wrong(&drawn(110)), [true, true, true, false]);
        assert_eq!(wrong(&drawn(100).replace("381", "581")), [true, false, true, true]);
    }

    #[test]
    fn pictures_of_other_things_have_no_figures() {
        assert_eq!(labels("<svg><text>bits per byte</text><text>0.5</text></svg>"), []);
        let text = |drawn| labels(drawn).into_iter().map(|label| label.text.to_owned()).collect::<Vec<_>>();
        assert_eq!(text("<svg><text>in ms</text><text>RWKV-7 2.9B</text><text>0.5</text></svg>"), ["0.5"]);
    }
}
