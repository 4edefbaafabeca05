//! Kernels alone: for each site what was measured, what the plan takes, and how far that is from the roofline.

use super::heat::HeatMap;
use super::point::{Point, label};
use super::roof::{Ceiling, Instances, Work, work};
use super::view::View;
use std::collections::BTreeMap;
use wgoose_kernels::{Catalogue, Plan};
use wgoose_measure::job::{Configured, Job, SiteId};
use wgoose_measure::ledger::{Earlier, Outcome, Record, Tried};
use wgoose_measure::stats::summary::Summary;
use wgoose_measure::stats::verdict::{Comparison, Criteria, compare};

/// A kind of op instance at a size, as every schema names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    op: String,
    k: u64,
    m: u64,
    formats: Vec<String>,
    up_to_rows: u64,
    rows: u64,
    segments: u64,
}

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
    id: Option<SiteId>,
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
    let mut all: BTreeMap<Name, Gathered> = BTreeMap::new();
    for trial in view.ended() {
        let at = view.spent_at(trial);
        match (&trial.identity.tried, &trial.outcome) {
            (Tried::Job(Job::Kernel { site, kernel }), outcome) => {
                gathered(&mut all, site).add(&kernel.variant, &kernel.config, outcome, at);
            }
            (Tried::Job(Job::Kernels { site, kernels, held_out }), Outcome::Pair { samples_ns: [a, b], .. }) => {
                if let Ok(comparison) = compare(a, b, &Criteria::kernel()) {
                    let kernels = kernels.each_ref().map(Configured::to_string);
                    gathered(&mut all, site).compared.push(Compared { kernels, held_out: *held_out, comparison });
                }
            }
            (Tried::Earlier(Earlier { subject, .. }), outcome @ Outcome::Kernel(_)) => {
                let size = |name: &str| subject.shape.get(name).copied().unwrap_or_default();
                let name = Name {
                    op: subject.op.clone(),
                    k: size("k"),
                    m: size("m"),
                    formats: subject.format.iter().map(ToString::to_string).collect(),
                    up_to_rows: size("up_to_rows"),
                    rows: size("rows"),
                    segments: 1,
                };
                all.entry(name).or_default().add(&subject.variant, &subject.tunables, outcome, at);
            }
            _ => {}
        }
    }
    for entry in view.records.as_slice() {
        if let Record::Refused(refused) = &entry.record
            && let Some(site) = refused.site.as_ref().filter(|_| view.is_device(&refused.device))
            && let Some(own) = all.get_mut(&name(site))
        {
            let [of, count] = own.configurations.get_or_insert_default();
            *of = (*of).max(u64::from(refused.of));
            *count += u64::from(refused.configurations);
        }
    }
    all.retain(|_, own| !own.points.is_empty() || own.failed > 0);
    let mut instances = Instances::of(view);
    let works: Vec<Option<Work>> =
        all.values().map(|own| own.id.as_ref().and_then(|id| instances.find(id)).map(|group| work(&group))).collect();
    let ceiling = roofline.or_else(|| reached(all.values().zip(&works)));
    let mut sites: Vec<(bool, f64, Site)> = Vec::new();
    for ((name, own), work) in all.into_iter().zip(works) {
        let is_prompt = name.rows > name.segments;
        let site = site(&name, own, work.zip(ceiling), &mut instances, catalogue, plan);
        let cost = site.points.first().map_or(0.0, |point| point.ns.median * work.map_or(1.0, |w| f64::from(w.count)));
        sites.push((is_prompt, cost, site));
    }
    sites.sort_by(|(a, x, _), (b, y, _)| a.cmp(b).then(y.total_cmp(x)));
    sites.into_iter().map(|(.., site)| site).collect()
}

fn name(site: &SiteId) -> Name {
    let SiteId { key, rows, segments } = site;
    Name {
        op: key.op.clone(),
        k: key.k.into(),
        m: key.m.into(),
        formats: key.formats.iter().map(ToString::to_string).collect(),
        up_to_rows: key.up_to_rows.into(),
        rows: (*rows).into(),
        segments: (*segments).into(),
    }
}

fn gathered<'a>(all: &'a mut BTreeMap<Name, Gathered>, site: &SiteId) -> &'a mut Gathered {
    let own = all.entry(name(site)).or_default();
    own.id.get_or_insert_with(|| site.clone());
    own
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
    name: &Name,
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
    let choice = own.id.as_ref().and_then(|id| plan?.choices.iter().find(|choice| choice.key == id.key));
    let chosen = choice.map(|choice| (choice.variant.clone(), label(&choice.variant, &choice.config)));
    let default = own.id.as_ref().and_then(|id| default_label(id, instances, catalogue));
    let heat = HeatMap::of(&points, chosen.as_ref().map(|(variant, _)| variant.as_str()));
    Site {
        rows: name.rows,
        default: default.map(placed),
        chosen: chosen.map(|(_, label)| placed(label)),
        failed: own.failed,
        configurations: own.configurations,
        least_ns: work.map(|(work, ceiling)| work.least_ns(ceiling)),
        ceiling: work.map(|(_, ceiling)| ceiling),
        bytes: work.map(|(work, _)| work.bytes),
        heat,
        compared: own.compared,
        name: name.in_words(),
        points,
    }
}

impl Name {
    fn in_words(&self) -> String {
        let Name { op, k, m, formats, rows, segments, .. } = self;
        let mut runs: Vec<(&str, u32)> = Vec::new();
        for format in formats {
            match runs.last_mut() {
                Some((last, count)) if last == format => *count += 1,
                _ => runs.push((format, 1)),
            }
        }
        let runs: Vec<String> =
            runs.iter().map(|(f, n)| if *n == 1 { (*f).to_owned() } else { format!("{n} x {f}") }).collect();
        let formats = if runs.is_empty() { String::new() } else { format!(", {}", runs.join(", ")) };
        let rows = match (rows, segments) {
            (1, 1) => "1 row".to_owned(),
            (rows, 1) => format!("{rows} rows"),
            (rows, segments) => format!("{rows} rows of {segments} sequences"),
        };
        format!("{op} {k} to {m}{formats}, {rows}")
    }
}

/// The kernel that the default plan takes.
fn default_label(site: &SiteId, instances: &mut Instances<'_>, catalogue: &Catalogue) -> Option<String> {
    let (limits, default) = (&*instances.session()?.limits, instances.default_plan()?);
    let group = instances.find(site)?;
    let (variant, config) = default.first_admitted(&group.instance, limits, catalogue).ok()??;
    Some(label(variant.name(), &variant.spell(&config)))
}
