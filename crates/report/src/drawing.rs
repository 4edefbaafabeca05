//! Drawings: marks, and axes that say what they measure.

use super::html::{SHORT, escape};

/// Units across. Drawings are about as wide as a phone, so that their text is as large as the page's.
pub const WIDTH: f64 = 360.0;

/// How they look, in light and in dark.
pub(super) const DRAWINGS: &str = include_str!("drawings.css");

/// A drawing as a file of its own, on a ground of its own.
pub fn standalone(svg: &str) -> String {
    let ground = "<rect width=\"100%\" height=\"100%\" class=\"plate\"/>\n";
    let head = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" ", 1.5 * WIDTH);
    let (opening, body) = svg.split_once(">\n").unwrap_or((svg, ""));
    format!(
        "{}>\n<style>\n{}</style>\n{ground}{body}",
        opening.replacen("<svg ", &head, 1),
        rules(&format!("{ground}{body}"))
    )
}

/// The rules of `drawings.css` for the classes of a drawing. Each rule for classes is a line that begins with them.
fn rules(svg: &str) -> String {
    let is_there = |class: &str| svg.contains(&format!("class=\"{}\"", class.trim_start_matches("svg .")));
    let is_needed = |line: &&str| {
        let classes = line.strip_prefix("svg .").and_then(|rule| rule.split_once(" {"));
        classes.is_none_or(|(classes, _)| classes.split(", ").any(is_there))
    };
    DRAWINGS.split_inclusive('\n').filter(is_needed).collect()
}

/// A drawing, with its words for those who do not see it.
pub struct Drawing {
    title: String,
    description: String,
    body: String,
}

/// Where a text begins, has its middle, or ends.
#[derive(Clone, Copy)]
pub enum Anchor {
    /// At its place.
    Start,
    /// Around it.
    Middle,
    /// Before it.
    End,
}

impl Drawing {
    /// An empty drawing: its name, and what it shows in a sentence. Text is escaped, here and below; classes are those
    /// of `drawings.css`.
    pub fn new(title: &str, description: &str) -> Self {
        let [title, description] = [title, description].map(|text| escape(text, 4 * SHORT));
        Drawing { title, description, body: String::new() }
    }

    /// A line of text; `y` is its base line.
    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let text = escape(text, SHORT);
        self.body += &format!("<text x=\"{x:.1}\" y=\"{y:.1}\"{anchor} class=\"{class}\">{text}</text>\n");
    }

    /// A straight line.
    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        self.body +=
            &format!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>\n");
    }

    /// A rectangle; `opacity` of its colour.
    pub fn rect(&mut self, (x, y): (f64, f64), (w, h): (f64, f64), class: &str, opacity: f64) {
        self.body += &format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" class=\"{class}\" fill-opacity=\"{opacity:.2}\"/>\n"
        );
    }

    /// A circle of radius `r`.
    pub fn circle(&mut self, (x, y): (f64, f64), r: f64, class: &str) {
        self.body += &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\" class=\"{class}\"/>\n");
    }

    /// What the derived plan takes.
    pub fn diamond(&mut self, (x, y): (f64, f64), r: f64, class: &str) {
        let points = [(x - r, y), (x, y - r), (x + r, y), (x, y + r)];
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.body += &format!("<polygon points=\"{}\" class=\"{class}\"/>\n", points.join(" "));
    }

    /// Straight lines from point to point.
    pub fn polyline(&mut self, points: &[(f64, f64)], class: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.body += &format!("<polyline points=\"{}\" class=\"{class}\"/>\n", points.join(" "));
    }

    /// The drawing, so many units high.
    pub fn svg(self, height: f64) -> String {
        let Drawing { title, description, body } = self;
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n\
             <desc>{description}</desc>\n{body}</svg>\n"
        )
    }
}

/// From values to places.
#[derive(Clone, Copy)]
pub struct Axis {
    is_log: bool,
    values: [f64; 2],
    places: [f64; 2],
}

impl Axis {
    /// With equal steps for equal differences.
    pub fn linear(values: [f64; 2], places: [f64; 2]) -> Self {
        Axis { is_log: false, values, places }
    }

    /// Of values above zero.
    pub fn log(values: [f64; 2], places: [f64; 2]) -> Self {
        Axis { is_log: true, values, places }
    }

    /// The place of a value; values beyond the ends are at the ends.
    pub fn at(&self, value: f64) -> f64 {
        let scale = |x: f64| if self.is_log { x.max(f64::MIN_POSITIVE).ln() } else { x };
        let ([from, to], [a, b]) = (self.values.map(scale), self.places);
        let share = (scale(value) - from) / (to - from);
        // Ends that are one: in the middle.
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.5 };
        a + (b - a) * share
    }

    /// Values to be named, at least `apart` units from one another.
    pub fn ticks(&self, apart: f64) -> Vec<f64> {
        let [from, to] = self.values;
        // A short piece of a logarithmic axis is all but linear.
        let sets = if self.is_log && to > 3.0 * from { powers(from, to) } else { multiples(from, to) };
        let inside = |ticks: Vec<f64>| ticks.into_iter().filter(|x| (from..=to).contains(x)).collect::<Vec<f64>>();
        let is_apart =
            |ticks: &Vec<f64>| ticks.windows(2).all(|pair| (self.at(pair[1]) - self.at(pair[0])).abs() >= apart);
        sets.into_iter().map(inside).find(is_apart).unwrap_or_default()
    }
}

/// Round numbers of a logarithmic axis, the closest first.
fn powers(from: f64, to: f64) -> Vec<Vec<f64>> {
    let steps: [&[f64]; 4] = [&[1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0], &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
    let within = |steps: &[f64]| decades(from, to, 1).flat_map(|d| steps.iter().map(move |s| s * d)).collect();
    let beyond = [2, 3, 6, 20, 100].map(|step| decades(from, to, step).collect());
    steps.map(within).into_iter().chain(beyond).collect()
}

/// Round numbers of a linear axis, the closest first.
fn multiples(from: f64, to: f64) -> Vec<Vec<f64>> {
    let magnitude = 10f64.powf(((to - from) / 20.0).log10().floor());
    let of = |step: f64| {
        let first = (from / step).ceil();
        (0..=100).map(|i| (first + f64::from(i)) * step).take_while(|x| *x <= to).collect()
    };
    [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0].map(|step| of(step * magnitude)).into()
}

/// Powers of ten from the one below `from` to the one above `to`.
fn decades(from: f64, to: f64, step: usize) -> impl Iterator<Item = f64> {
    let exponent = |x: f64| if x > 0.0 && x.is_finite() { x.log10().floor() as i32 } else { 0 };
    (exponent(from)..=exponent(to) + 1).step_by(step).map(|e| 10f64.powi(e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_apart_and_inside() {
        let log = Axis::log([9_800.0, 3_200_000.0], [0.0, 340.0]);
        assert_eq!(log.ticks(50.0), [1e4, 3e4, 1e5, 3e5, 1e6, 3e6]);
        assert_eq!(Axis::log([0.9, 2.2], [0.0, 340.0]).ticks(44.0), [1.0, 1.5, 2.0]);
        assert_eq!(Axis::linear([0.0, 285.0], [0.0, 340.0]).ticks(40.0), [0.0, 50.0, 100.0, 150.0, 200.0, 250.0]);
        // Whatever a ledger says.
        for values in [[1.0, 1.0], [1e-300, 1e300], [0.0, f64::MAX], [0.0, 0.0]] {
            for axis in [Axis::log(values, [0.0, 340.0]), Axis::linear(values, [0.0, 340.0])] {
                assert!(axis.ticks(40.0).len() < 10, "{values:?}");
                assert!((0.0..=340.0).contains(&axis.at(values[1])));
            }
        }
    }
    #[test]
    fn a_standalone_picture_has_the_rules_of_its_classes() {
        let mut drawing = Drawing::new("a goose", "as it is");
        drawing.line((0.0, 0.0), (1.0, 1.0), "axis");
        let file = standalone(&drawing.svg(10.0));
        let rules: Vec<&str> = file.lines().filter(|line| line.starts_with("svg .")).collect();
        assert!(rules[0].starts_with("svg .grid, svg .axis, "), "{rules:?}");
        assert_eq!(rules[1..], ["svg .axis { stroke: var(--pale); }", "svg .plate { fill: var(--plate); }"]);
        assert!(file.contains(":root {\n") && file.contains("svg { font: ") && file.ends_with("</svg>\n"));
    }
}
