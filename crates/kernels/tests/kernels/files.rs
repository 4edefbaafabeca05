//! A kernel is read from few files, and what it was made of is known.

use crate::instances::{small, wide};
use rayon::prelude::*;
use std::collections::BTreeMap;
use wgoose_graph::Format;
use wgoose_kernels::Catalogue;

#[test]
fn a_kernel_is_read_from_few_files() {
    let (catalogue, limits) = (Catalogue::embedded(), wide());
    // In most layers, in F16 where it takes that: of each variant the kernel that is read first.
    let formats: Vec<Format> = [Format::F16].into_iter().chain(Format::all().filter(|f| *f != Format::F16)).collect();
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    for format in formats.iter().copied() {
        for instance in small(format, &[1, 16]).into_iter().rev() {
            for variant in catalogue.variants(instance.op.name()) {
                let configs = variant.configs();
                if let Some(config) = configs.iter().find(|c| variant.is_legal(&instance, c, &limits).is_ok()) {
                    first.entry(variant.id()).or_insert_with(|| variant.files(&instance, config).unwrap().len());
                }
            }
        }
    }
    let mut counts: Vec<usize> = first.values().copied().collect();
    counts.sort_unstable();
    assert!(counts[counts.len() / 2] <= 4, "the median is {}: {first:#?}", counts[counts.len() / 2]);

    let found: Vec<BTreeMap<String, usize>> = formats
        .into_par_iter()
        .map(|format| {
            let mut most: BTreeMap<String, usize> = BTreeMap::new();
            for instance in small(format, &[1, 16]) {
                for variant in catalogue.variants(instance.op.name()) {
                    for config in variant.configs().iter().filter(|c| variant.is_legal(&instance, c, &limits).is_ok()) {
                        let files = variant.files(&instance, config).unwrap().len();
                        let known = most.entry(variant.id()).or_default();
                        *known = files.max(*known);
                    }
                }
            }
            most
        })
        .collect();
    let mut most: BTreeMap<String, usize> = BTreeMap::new();
    for (variant, files) in found.into_iter().flatten() {
        let known = most.entry(variant).or_default();
        *known = files.max(*known);
    }
    assert!(most.values().all(|files| *files <= 15), "{most:#?}");
}
