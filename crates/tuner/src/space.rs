//! The space of a sweep: the kinds of sites that a model's passes have, and for each the catalogue's points, admitted or
//! refused with a reason.

use crate::race::Step;
use std::collections::BTreeMap;
use wgoose_graph::{BatchShape, Format, FusionSet, ModelShape, Weight, rewrite, rwkv7};
use wgoose_kernels::plan::SiteClass;
use wgoose_kernels::{Limits, Numerics, Refusal, Site, Sources, SpecialiseError, Tunables, Variant, ops};

/// Sites that take the same kernel, and how often a pass has one.
#[derive(Clone, Debug)]
pub struct SiteGroup {
    /// What a plan calls them.
    pub class: SiteClass,
    /// One of them.
    pub site: Site,
    /// How many a pass has.
    pub count: u32,
    /// Whether any of them belongs to a layer.
    pub in_layers: bool,
}

/// The groups of a pass of a step: `tokens` of each of `sequences`, with one output each.
pub fn groups(
    model: &ModelShape,
    step: Step,
    fusions: &FusionSet,
    format: &dyn Fn(Weight) -> Format,
) -> Vec<SiteGroup> {
    let Step { tokens, sequences } = step;
    let batch = BatchShape { tokens: tokens * sequences, segments: sequences, outputs: sequences };
    let mut groups: BTreeMap<SiteClass, SiteGroup> = BTreeMap::new();
    // A shape that is no model, or a fusion that does not apply, has no sites.
    let Ok(mut graph) = rwkv7::forward(model) else { return Vec::new() };
    if rewrite::apply(&mut graph, fusions).is_err() {
        return Vec::new();
    }
    for id in graph.schedule().unwrap_or_default() {
        let site = Site::of(&graph, id, &batch, format);
        let class = SiteClass::of(&site);
        let group = groups.entry(class.clone()).or_insert(SiteGroup { class, site, count: 0, in_layers: false });
        group.count += 1;
        group.in_layers |= graph.op(id).layer.is_some();
    }
    groups.into_values().collect()
}

/// One point of the space.
#[derive(Clone, Debug)]
pub struct Point {
    /// The variant.
    pub variant: &'static Variant,
    /// Its tunables.
    pub tunables: Tunables,
    /// Why it cannot be tried here, as far as can be told without making its text.
    pub refusal: Option<Refusal>,
}

/// Every point for a site: each variant, defaults first, at each combination of its tunables. Variants that compute with
/// rougher numbers than `allowed` are refused.
///
/// # Errors
/// A kernel file cannot be read.
pub fn points(
    site: &Site,
    limits: &Limits,
    allowed: Numerics,
    sources: &Sources,
) -> Result<Vec<Point>, SpecialiseError> {
    let mut all = Vec::new();
    for variant in ops::kernels(&site.op).variants {
        let numerics = variant.numerics();
        let rough = (numerics > allowed).then_some(Refusal::Numerics(numerics));
        for tunables in variant.points(sources)? {
            let refusal = rough.clone().or_else(|| variant.admits(site, &tunables, limits).err());
            all.push(Point { variant, tunables, refusal });
        }
    }
    Ok(all)
}

/// The points that differ from `from` in one tunable.
pub fn neighbours<'a>(points: &'a [Point], from: &'a Point) -> impl Iterator<Item = usize> + 'a {
    let differs =
        |p: &Point| p.tunables.0.iter().filter(|(name, value)| from.tunables.0.get(*name) != Some(value)).count();
    let near = move |p: &Point| p.variant.name == from.variant.name && differs(p) == 1;
    points.iter().enumerate().filter(move |(_, p)| near(p)).map(|(i, _)| i)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_kernels::Plan;

    #[test]
    fn the_space_names_every_kind_of_site_once_and_every_refusal() {
        let model = ModelShape::preset("0.1B").unwrap();
        let groups = groups(&model, Step::DECODE, &Plan::default_fusions().decode, &|_| Format::F16);
        let count = |op: &str| groups.iter().filter(|g| g.class.op == op).map(|g| g.count).sum::<u32>();
        assert_eq!((count("time_mix_core"), count("project"), count("norm_shift")), (12, 12, 24));
        assert_eq!((count("matmul"), count("matmul_add")), (12 + 1, 24));

        let head = groups.iter().find(|g| g.class.m == 65536).unwrap();
        let points = points(&head.site, &Limits::webgpu(), Numerics::F32, &Sources::Embedded).unwrap();
        let refused = points.iter().filter(|p| p.refusal.is_some()).count();
        assert!(points.len() > 80 && refused > 30, "{} points, {refused} refused", points.len());
        assert!(neighbours(&points, points.iter().find(|p| p.variant.name == "naive").unwrap()).count() == 1);
    }
}
