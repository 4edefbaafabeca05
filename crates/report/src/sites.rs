//! Kernels alone: for each site what was measured, what the plan takes, and how far that is from the roofline.

use super::heat::HeatMap;
use super::point::{Point, label};
use super::roof::{Ceiling, Instances, Work, work};
use super::view::View;
use std::collections::BTreeMap;
use wgoose_graph::Format;
use wgoose_kernels::plan::TuningKey;
use wgoose_kernels::{Catalogue, Plan};
use wgoose_measure::job::{Configured, Job, SiteId};
use wgoose_measure::ledger::{Outcome, Record};
use wgoose_measure::stats::summary::Summary;
use wgoose_measure::stats::verdict::{Comparison, Criteria, compare};

/// What is known of a site.
#[derive(Clone, Debug)]
pub struct Site {
    /// The op and its sizes, in words.
    pub name: String,
    /// Rows of y: tokens of a pass.
    pub rows: u64,
    /// Kernels that ran and were right, the fastest first.
    pub points: Vec<Point>,
    /// Kernels that failed.
    pub failed: usize,
    /// Configurations that there are, and those that were refused, where the ledger says so.
    pub configurations: Option<[u64; 2]>,
    /// The default kernel, as `variant NAME=value ...`, where it is known, and its place among the points.
    pub default: Option<(String, Option<usize>)>,
    /// The kernel that the derived plan names, and its place among the points.
    pub chosen: Option<(String, Option<usize>)>,
    /// Least nanoseconds by the roofline.
    pub least_ns: Option<f64>,
    /// By which ceiling.
    pub ceiling: Option<Ceiling>,
    /// Bytes that an instance moves.
    pub bytes: Option<f64>,
    /// Two tunables against each other.
    pub heat: Option<HeatMap>,
    /// Comparisons of two kernels in interleaved pairs.
    pub compared: Vec<Compared>,
}

/// Two kernels in interleaved pairs.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The incumbent and the candidate.
    pub kernels: [String; 2],
    /// Whether the samples were held out.
    pub held_out: bool,
    /// What they say.
    pub comparison: Comparison,
}

/// What is gathered of a site.
#[derive(Default)]
struct Gathered {
    /// By label: where a kernel was edited, what was measured last.
    points: BTreeMap<String, Point>,
    failed: usize,
    /// All configurations, and those that were refused.
    configurations: Option<[u64; 2]>,
    compared: Vec<Compared>,
}

/// All sites at which kernels were timed.
pub(super) fn sites(
    view: &View<'_>,
    catalogue: &Catalogue,
    plan: Option<&Plan>,
    roofline: Option<Ceiling>,
) -> Vec<Site> {
    let mut all: BTreeMap<SiteId, Gathered> = BTreeMap::new();
    for trial in view.ended() {
        let at = view.spent_at(trial);
        match (&trial.identity.tried, &trial.outcome) {
            (Job::Kernel { site, kernel }, outcome) => {
                gathered(&mut all, site).add(&kernel.variant, &kernel.config, outcome, at);
            }
            (Job::Kernels { site, kernels, held_out }, Outcome::Pair { samples_ns: [a, b], .. }) => {
                if let Ok(comparison) = compare(a, b, &Criteria::kernel()) {
                    let kernels = kernels.each_ref().map(Configured::to_string);
                    gathered(&mut all, site).compared.push(Compared { kernels, held_out: *held_out, comparison });
                }
            }
            _ => {}
        }
    }
    for entry in view.records.as_slice() {
        if let Record::Refused(refused) = &entry.record
            && let Some(site) = refused.site.as_ref().filter(|_| view.is_device(&refused.device))
            && let Some(own) = all.get_mut(site)
        {
            let [of, count] = own.configurations.get_or_insert_default();
            *of = (*of).max(u64::from(refused.of));
            *count += u64::from(refused.configurations);
        }
    }
    all.retain(|_, own| !own.points.is_empty() || own.failed > 0);
    let mut instances = Instances::of(view);
    let works: Vec<Option<Work>> = all.keys().map(|id| instances.find(id).map(|group| work(&group))).collect();
    let ceiling = roofline.or_else(|| reached(all.values().zip(&works)));
    let mut sites: Vec<(bool, f64, Site)> = Vec::new();
    for ((id, own), work) in all.into_iter().zip(works) {
        let is_prompt = id.rows > id.segments;
        let site = site(&id, own, work.zip(ceiling), &mut instances, catalogue, plan);
        let cost = site.points.first().map_or(0.0, |point| point.ns.median * work.map_or(1.0, |w| f64::from(w.count)));
        sites.push((is_prompt, cost, site));
    }
    sites.sort_by(|(a, x, _), (b, y, _)| a.cmp(b).then(y.total_cmp(x)));
    sites.into_iter().map(|(.., site)| site).collect()
}

fn gathered<'a>(all: &'a mut BTreeMap<SiteId, Gathered>, site: &SiteId) -> &'a mut Gathered {
    all.entry(site.clone()).or_default()
}

impl Gathered {
    fn add(&mut self, variant: &str, config: &BTreeMap<String, String>, outcome: &Outcome, at: f64) {
        // A time that is none would leave the axes without an end.
        let ns = Summary::of(outcome.samples_ns()).filter(|ns| ns.min > 0.0);
        match (outcome, ns) {
            (Outcome::Kernel(_), Some(ns)) => {
                let (variant, config) = (variant.to_owned(), config.clone());
                let point = Point { variant, config, ns, at };
                self.points.insert(point.label(), point);
            }
            _ => self.failed += 1,
        }
    }
}

/// The most bytes and operations per nanosecond that any kernel reached.
fn reached<'a>(all: impl Iterator<Item = (&'a Gathered, &'a Option<Work>)>) -> Option<Ceiling> {
    let mut ceiling = Ceiling { bytes: 0.0, flops: 0.0, is_measured: false };
    for (own, work) in all {
        let least = own.points.values().map(|point| point.ns.median).fold(f64::INFINITY, f64::min);
        if let Some(work) = work.filter(|_| least.is_finite()) {
            ceiling.bytes = ceiling.bytes.max(work.bytes / least);
            ceiling.flops = ceiling.flops.max(work.flops / least);
        }
    }
    (ceiling.bytes > 0.0 && ceiling.flops > 0.0).then_some(ceiling)
}

fn site(
    id: &SiteId,
    own: Gathered,
    work: Option<(Work, Ceiling)>,
    instances: &mut Instances<'_>,
    catalogue: &Catalogue,
    plan: Option<&Plan>,
) -> Site {
    let mut points: Vec<Point> = own.points.into_values().collect();
    points.sort_by(|a, b| a.ns.median.total_cmp(&b.ns.median));
    let placed = |label: String| {
        let at = points.iter().position(|point| point.label() == label);
        (label, at)
    };
    let choice = plan.and_then(|plan| plan.choices.iter().find(|choice| choice.key == id.key));
    let chosen = choice.map(|choice| (choice.variant.clone(), label(&choice.variant, &choice.config)));
    let default = default_label(id, instances, catalogue);
    let heat = HeatMap::of(&points, chosen.as_ref().map(|(variant, _)| variant.as_str()));
    Site {
        rows: id.rows.into(),
        default: default.map(placed),
        chosen: chosen.map(|(_, label)| placed(label)),
        failed: own.failed,
        configurations: own.configurations,
        least_ns: work.map(|(work, ceiling)| work.least_ns(ceiling)),
        ceiling: work.map(|(_, ceiling)| ceiling),
        bytes: work.map(|(work, _)| work.bytes),
        heat,
        compared: own.compared,
        name: in_words(id),
        points,
    }
}

fn in_words(site: &SiteId) -> String {
    let SiteId { key: TuningKey { op, k, m, formats, .. }, rows, segments } = site;
    let mut runs: Vec<(Format, u32)> = Vec::new();
    for format in formats {
        match runs.last_mut() {
            Some((last, count)) if last == format => *count += 1,
            _ => runs.push((*format, 1)),
        }
    }
    let runs: Vec<String> =
        runs.iter().map(|(f, n)| if *n == 1 { f.to_string() } else { format!("{n} x {f}") }).collect();
    let formats = if runs.is_empty() { String::new() } else { format!(", {}", runs.join(", ")) };
    let rows = match (rows, segments) {
        (1, 1) => "1 row".to_owned(),
        (rows, 1) => format!("{rows} rows"),
        (rows, segments) => format!("{rows} rows of {segments} sequences"),
    };
    format!("{op} {k} to {m}{formats}, {rows}")
}

/// The kernel that the default plan takes.
fn default_label(site: &SiteId, instances: &mut Instances<'_>, catalogue: &Catalogue) -> Option<String> {
    let (limits, default) = (&*instances.session()?.limits, instances.default_plan()?);
    let group = instances.find(site)?;
    let (variant, config) = default.first_admitted(&group.instance, limits, catalogue).ok()??;
    Some(label(variant.name(), &variant.spell(&config)))
}
