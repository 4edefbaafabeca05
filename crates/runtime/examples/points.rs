//! Times every point of some ops' kernels at the decode sites of a model shape, each dispatch waiting for the one before:
//! `points PRESET MATRIX_FORMAT THREADS UNITS op[:variant] ...`. Some environment variables: ROWS sequences decode together,
//! KERNELS is a folder of kernels, ZEROS the share of x that is zero, FUSIONS what is fused (default: all that can be).
#![allow(clippy::unwrap_used)]

use rayon::prelude::*;
use wgoose_graph::{BatchShape, Format, Fusion, FusionSet, ModelShape, Weight, WeightClass, rewrite, rwkv7};
use wgoose_kernels::plan::SiteClass;
use wgoose_kernels::{Kernel, Refusal, Site, Sources, ops};
use wgoose_runtime::Device;
use wgoose_runtime::lab::{Bench, Case, Clock, Expected, check};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let shape = ModelShape::preset(&args[1]).unwrap();
    let matrix: Format = args[2].parse().unwrap();
    let device = Device::open(None).unwrap();
    let mut graph = rwkv7::forward(&shape).unwrap();
    let fusions = match std::env::var("FUSIONS") {
        Ok(names) => names.split(',').filter(|n| !n.is_empty()).map(|n| n.parse().unwrap()).collect(),
        Err(_) => FusionSet::from(Fusion::ALL),
    };
    rewrite::apply(&mut graph, &fusions).unwrap();
    let rows = std::env::var("ROWS").map_or(1, |n| n.parse().unwrap());
    let sources = std::env::var_os("KERNELS").map_or(Sources::Embedded, |folder| Sources::Folder(folder.into()));
    let zeros: f32 = std::env::var("ZEROS").map_or(0.0, |share| share.parse().unwrap());
    let batch = BatchShape { tokens: rows, segments: rows, outputs: rows };
    let format = |w: Weight| match w.class() {
        WeightClass::Vector => Format::F32,
        WeightClass::Adapter => Format::F16,
        WeightClass::Matrix => matrix,
    };
    let mut seen = Vec::new();
    for id in graph.op_ids().filter(|id| graph.op(*id).layer == Some(1)) {
        let site = Site::of(&graph, id, &batch, &format);
        let class = SiteClass::of(&site);
        let asked: Vec<&str> =
            args[5..].iter().filter(|a| a.split(':').next() == Some(&class.op)).map(String::as_str).collect();
        if asked.is_empty() || seen.contains(&class) {
            continue;
        }
        seen.push(class.clone());
        let copies = ((256 << 20) / site.held_bytes().max(1)).clamp(1, 16) as usize;
        let case = Case::random(&site, 0).with_zeros("x", zeros, 0);
        let expected = Expected::of(&case);
        let mut points = Vec::new();
        let is_asked = |name: &str| asked.iter().any(|a| a.split_once(':').is_none_or(|(_, v)| v == name));
        for variant in ops::variants(&class.op).iter().filter(|v| is_asked(v.name)) {
            for point in variant.points(&sources).unwrap() {
                let is = |name: &str, value: &str| {
                    value == "any" || point.0.get(name).is_none_or(|v| value.split(',').any(|w| w == v))
                };
                if is("WG", &args[3]) && is("UNITS", &args[4]) {
                    points.push((variant, point));
                }
            }
        }
        let kernels: Vec<(String, Kernel)> = points
            .into_par_iter()
            .filter_map(|(v, p)| match Kernel::new(v, &site, &p, device.limits(), &sources) {
                Ok(kernel) => Some((kernel.label.clone(), kernel)),
                Err(Refusal::Text(e)) => {
                    println!("{} {p}: {e}", v.id());
                    None
                }
                Err(_) => None,
            })
            .collect();
        let (mut clock, mut wrong) = (None, 0);
        let mut found: Vec<(f64, String)> = Vec::new();
        for chunk in kernels.chunks(16) {
            let benches: Vec<_> = chunk
                .par_iter()
                .filter_map(|(label, kernel)| Some((label, Bench::new(&device, kernel, &case, copies).ok()?)))
                .collect();
            for (label, bench) in benches {
                let clock =
                    clock.get_or_insert_with(|| Clock::self_test(&device, &|pass, n| bench.encode(pass, n)).unwrap());
                let deviation = check(&bench, &case, &expected);
                let right = deviation.as_ref().is_ok_and(|d| d.passed());
                if !right && wrong < 3 {
                    println!("  {label}: {deviation:?}");
                    wrong += 1;
                }
                let ns = (0..3).map(|_| bench.time(clock, 300).unwrap().ns).fold(f64::INFINITY, f64::min);
                found.push((ns, format!("{label}{}", if right { "" } else { " WRONG" })));
            }
        }
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        println!("{class}: {:.2} MB, {} points", site.bytes() as f64 / 1e6, found.len());
        for (ns, label) in found.iter().take(8) {
            println!("  {:7.2} us {:6.0} GB/s  {label}", ns / 1e3, site.bytes() as f64 / ns);
        }
        let mut variants: Vec<&str> = Vec::new();
        for (ns, label) in &found {
            let name = label.split(' ').next().unwrap_or_default();
            if !variants.contains(&name) {
                variants.push(name);
                println!("  best {:7.2} us  {label}", ns / 1e3);
            }
        }
    }
}
