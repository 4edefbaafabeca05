//! Two tunables of a variant against each other: those that explain most of what its configurations differ by.

use super::point::Point;
use std::collections::BTreeMap;

/// Fewer configurations than this make no map.
const FEWEST: usize = 6;

/// More values of a tunable than this are not shown.
const MOST_VALUES: usize = 12;

/// The fastest configuration of a variant for each pair of values of two of its tunables, whatever the others are.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// The variant.
    pub variant: String,
    /// The tunable of the columns, and its values.
    pub columns: (String, Vec<String>),
    /// The tunable of the rows, and its values.
    pub rows: (String, Vec<String>),
    /// Row by row; `None` where nothing was measured.
    pub cells: Vec<Vec<Option<Cell>>>,
    /// The share of the variance of log time that each of the two explains alone, columns first.
    pub explained: [f64; 2],
}

/// Configurations with the same two values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Median nanoseconds of the fastest.
    pub ns: f64,
    /// How many were measured.
    pub measured: usize,
}

impl HeatMap {
    /// That of the variant of `points` that has most of them and two tunables that vary; of `preferred` if it does.
    pub(super) fn of(points: &[Point], preferred: Option<&str>) -> Option<Self> {
        let mut variants: BTreeMap<&str, Vec<&Point>> = BTreeMap::new();
        for point in points {
            variants.entry(point.variant.as_str()).or_default().push(point);
        }
        let mut variants: Vec<(&str, Vec<&Point>)> = variants.into_iter().collect();
        variants.sort_by_key(|(name, own)| (Some(*name) != preferred, std::cmp::Reverse(own.len())));
        variants.into_iter().find_map(|(name, own)| HeatMap::of_variant(name, &own))
    }

    fn of_variant(variant: &str, points: &[&Point]) -> Option<Self> {
        if points.len() < FEWEST {
            return None;
        }
        let mut tunables: Vec<(f64, &str)> = Vec::new();
        for name in points[0].config.keys() {
            if values(points, name).len() > 1 {
                tunables.push((explained(points, name), name));
            }
        }
        tunables.sort_by(|(a, m), (b, n)| b.total_cmp(a).then(m.cmp(n)));
        let [(first, a), (second, b), ..] = tunables[..] else { return None };
        // The one with more values goes across.
        let across = values(points, a).len() >= values(points, b).len();
        let ((column, row), explained) = if across { ((a, b), [first, second]) } else { ((b, a), [second, first]) };
        let [columns, rows] = [column, row].map(|name| {
            let mut values = values(points, name);
            values.truncate(MOST_VALUES);
            values
        });
        let cell = |r: &String, c: &String| {
            let is_here = |point: &&&Point| point.config.get(row) == Some(r) && point.config.get(column) == Some(c);
            let own: Vec<f64> = points.iter().filter(is_here).map(|point| point.ns.median).collect();
            let ns = own.iter().copied().fold(f64::INFINITY, f64::min);
            (!own.is_empty()).then_some(Cell { ns, measured: own.len() })
        };
        let cells = rows.iter().map(|r| columns.iter().map(|c| cell(r, c)).collect()).collect();
        Some(HeatMap {
            variant: variant.to_owned(),
            columns: (column.to_owned(), columns),
            rows: (row.to_owned(), rows),
            cells,
            explained,
        })
    }

    /// The fastest of all.
    pub fn least_ns(&self) -> f64 {
        self.cells.iter().flatten().flatten().map(|cell| cell.ns).fold(f64::INFINITY, f64::min)
    }
}

/// The values that a tunable has, numbers by size.
fn values(points: &[&Point], name: &str) -> Vec<String> {
    let mut values: Vec<String> = points.iter().filter_map(|point| point.config.get(name)).cloned().collect();
    let number = |text: &str| text.parse::<f64>().unwrap_or(f64::INFINITY);
    values.sort_by(|a, b| number(a).total_cmp(&number(b)).then_with(|| a.cmp(b)));
    values.dedup();
    values
}

/// The share of the variance of log time that lies between the values of a tunable (eta squared).
fn explained(points: &[&Point], name: &str) -> f64 {
    let mut groups: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for point in points {
        if let Some(value) = point.config.get(name) {
            groups.entry(value).or_default().push(point.ns.median.ln());
        }
    }
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len().max(1) as f64;
    let all: Vec<f64> = groups.values().flatten().copied().collect();
    let total: f64 = all.iter().map(|x| (x - mean(&all)).powi(2)).sum();
    let between: f64 = groups.values().map(|own| own.len() as f64 * (mean(own) - mean(&all)).powi(2)).sum();
    if total > 0.0 { between / total } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_measure::stats::summary::Summary;

    fn point(config: [(&str, u32); 3], ns: f64) -> Point {
        let config = config.map(|(name, value)| (name.to_owned(), value.to_string())).into();
        Point { variant: "v".to_owned(), config, ns: Summary::of(&[ns]).unwrap(), at: 0.0 }
    }

    #[test]
    fn the_two_tunables_that_matter_are_shown() {
        let mut points = Vec::new();
        for wg in [64, 128, 256, 1024] {
            for rows in [1, 2] {
                for idle in [0, 1] {
                    let ns = 1e4 * f64::from(wg) * f64::from(3 - rows) + f64::from(idle);
                    points.push(point([("WG", wg), ("ROWS", rows), ("IDLE", idle)], ns));
                }
            }
        }
        points.retain(|point| point.config["WG"] != "128" || point.config["ROWS"] != "1");
        let map = HeatMap::of(&points, None).unwrap();
        assert_eq!((map.columns.0.as_str(), map.rows.0.as_str()), ("WG", "ROWS"));
        assert_eq!(map.columns.1, ["64", "128", "256", "1024"]);
        assert_eq!(map.cells[0][1], None);
        assert_eq!(map.cells[1][0], Some(Cell { ns: 64e4, measured: 2 }));
        assert_eq!(map.least_ns(), 64e4);
        assert!(map.explained[0] > map.explained[1] && map.explained[1] > 0.1);
        // One that varies is no map.
        points.retain(|point| point.config["ROWS"] == "1" && point.config["IDLE"] == "0");
        assert_eq!(HeatMap::of(&points, None), None);
    }
}
