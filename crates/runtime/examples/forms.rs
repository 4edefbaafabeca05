//! Times decoding with forms of a step that are described in a file, a line each:
//!
//! `name | T | G | fusions | op[@Kk]=variant:NAME=VALUE,... ; ...`
//!
//! A sixth field has formats to be laid in tiles, a seventh how many sequences decode together. T invocations of G workgroups
//! (G = 0: the chain of dispatches); fusions is `default`, or `default,norm-project,...`; ops not named take the first kernel
//! that can be a stage. KERNELS, a folder, has other kernels.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;
use wgoose_graph::{BatchShape, Format, Weight, WeightClass};
use wgoose_kernels::persistent::can_be_stage;
use wgoose_kernels::plan::{Choice, SiteClass};
use wgoose_kernels::{Kernel, Plan, Site, Sources, Tunables, ops};
use wgoose_loader::Model;
use wgoose_runtime::{Continuation, Device, Engine, GpuExecutor, Graphs, Penalties, Sampling, Start};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let model = Arc::new(Model::open(std::path::PathBuf::from(&args[1])).unwrap());
    let device = Device::open(None).unwrap();
    let sources = std::env::var_os("KERNELS").map_or(Sources::Embedded, |folder| Sources::Folder(folder.into()));
    let tokens: u32 = args.get(3).map_or(256, |n| n.parse().unwrap());
    let base = Plan::default_for(device.fingerprint().clone(), *model.shape(), device.limits());
    let root = GpuExecutor::new(Arc::clone(&device), Arc::clone(&model), base.clone(), sources.clone(), 1).unwrap();
    for line in std::fs::read_to_string(&args[2]).unwrap().lines().filter(|l| !l.trim().is_empty()) {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let (name, threads, workgroups) = (fields[0], fields[1].parse().unwrap(), fields[2].parse::<u32>().unwrap());
        let mut plan = base.clone();
        for word in fields[3].split(',').filter(|w| *w != "default") {
            match word.strip_prefix('-') {
                Some(out) => drop(plan.fusions.decode.remove(&out.parse().unwrap())),
                None => drop(plan.fusions.decode.insert(word.parse().unwrap())),
            }
        }
        plan.fusions.together.clone_from(&plan.fusions.decode);
        plan.repack = fields.get(5).unwrap_or(&"").split(',').filter_map(|f| f.trim().parse().ok()).collect();
        let mut wanted: BTreeMap<&str, (&str, Tunables)> = BTreeMap::new();
        for choice in fields.get(4).unwrap_or(&"").split(';').map(str::trim).filter(|c| !c.is_empty()) {
            let (op, rest) = choice.split_once('=').unwrap();
            let (variant, set) = rest.split_once(':').unwrap_or((rest, ""));
            let set = set.split(',').filter_map(|s| s.split_once('='));
            let set = set.map(|(n, v)| (n.trim().to_owned(), v.trim().to_owned())).collect();
            wanted.insert(op.trim(), (variant.trim(), Tunables(set)));
        }
        let sequences = fields.get(6).map_or(1, |n| n.parse().unwrap());
        plan.choices = choices(&device, &model, &plan, (threads, sequences), (&wanted, &sources));
        plan.persistent = (workgroups > 0).then_some(workgroups);
        if let Some(folder) = std::env::var_os("PLANS") {
            plan.save(&std::path::Path::new(&folder).join(format!("{name}.ron"))).unwrap();
        }
        let executor = match root.sibling(plan, sequences as usize) {
            Ok(executor) => executor,
            Err(e) => {
                println!("{name}: {e}");
                continue;
            }
        };
        let mut engine = Engine::new(Box::new(executor), 64);
        let mut best = f64::INFINITY;

        let mut last: (Vec<u32>, _) = (Vec::new(), None);
        let mut encode = 0.0;
        for round in 0..4 {
            let zero = wgoose_runtime::StateData::zero(engine.shape());
            (0..sequences as usize).for_each(|slot| engine.set_state(slot, &zero).unwrap());
            let penalties = Penalties { presence: 0.0, frequency: 0.0, decay: 1.0 };
            let sampling = Sampling {
                temperature: 0.0,
                top_p: 1.0,
                top_k: None,
                typical: 1.0,
                penalties,
                seed: 0,
                stream: 0,
                drawn: 0,
            };
            let of_slot =
                |slot| Continuation { slot, sampling, bias: &[], chosen: &[], stops: &[], max_tokens: tokens };
            let all: Vec<_> = (0..sequences as usize).map(of_slot).collect();
            let first: Vec<u32> = (7..7 + sequences).collect();
            let mut text = Vec::new();
            let begun = Instant::now();
            let report = engine.decode(Start::Tokens(&first), &all, 3, &mut |ids| {
                text.extend(ids.iter().flatten());
                ControlFlow::Continue(())
            });
            let seconds = begun.elapsed().as_secs_f64();
            match report {
                Err(e) => {
                    println!("{name}: {e}");
                    break;
                }
                Ok(report) => {
                    encode = report.encode_seconds / seconds;
                    last = (text, Some(report));
                }
            }
            if round > 0 {
                best = best.min(seconds);
            }
        }
        let sum: u64 = last.0.iter().fold(7u64, |h, t| h.wrapping_mul(0x100_0000_01b3) ^ u64::from(*t));
        println!(
            "{name}: {:.1} tok/s ({:.3} ms), text {sum:016x}, encode {:.0} %, {:?} {:?}",
            f64::from(tokens * sequences) / best,
            1e3 * best / f64::from(tokens),
            100.0 * encode,
            engine.report().persistent,
            last.1.map(|r| (r.persistent, r.gave_up, r.repeated)),
        );
    }
}

fn choices(
    device: &Device,
    model: &Model,
    plan: &Plan,
    (threads, sequences): (u32, u32),
    (wanted, sources): (&BTreeMap<&str, (&str, Tunables)>, &Sources),
) -> Vec<Choice> {
    let batch = BatchShape { tokens: sequences, segments: sequences, outputs: sequences };
    let graphs = Graphs::new(model.shape(), &plan.fusions, device.timeline()).unwrap();
    let graph = graphs.of(&batch);
    let format = |w: Weight| match w.class() {
        WeightClass::Vector => Format::F32,
        _ => plan.format_on_gpu(w, model.tensor(w).format()),
    };
    let mut choices: Vec<Choice> = Vec::new();
    for id in graph.op_ids() {
        let site = Site::of(graph, id, &batch, &format);
        let class = SiteClass::of(&site);
        if choices.iter().any(|c| c.site == class) {
            continue;
        }
        let at = format!("{}@K{}", class.op, class.k);
        let of_op = wanted.get(at.as_str()).or_else(|| wanted.get(class.op.as_str()));
        let variants = ops::variants(&class.op).iter().filter(|v| of_op.is_none_or(|(name, _)| v.name == *name));
        let points = variants.flat_map(|v| v.points(sources).unwrap().into_iter().map(move |p| (v, p)));
        let matching = |p: &Tunables| of_op.is_none_or(|(_, set)| set.0.iter().all(|(n, v)| p.0.get(n) == Some(v)));
        // Kernels outside of layers may be of any width.
        let alone = graph.op(id).layer.is_none();
        if sequences > 1 && of_op.is_none() {
            continue;
        }
        let mut points = points.filter(|(_, p)| matching(p));
        let found = points.find(|(v, p)| {
            Kernel::new(v, &site, p, device.limits(), sources)
                .is_ok_and(|k| alone || threads == 0 || can_be_stage(&k, threads))
        });
        match found {
            Some((variant, tunables)) => {
                let source = variant.source_hash(&class.formats, sources).unwrap();
                choices.push(Choice { site: class, variant: variant.name.to_owned(), tunables, source });
            }
            None => {
                println!("nothing for {class}");
                let all = ops::variants(&class.op).iter().filter(|v| of_op.is_none_or(|(name, _)| v.name == *name));
                let tried = all.flat_map(|v| v.points(sources).unwrap().into_iter().map(move |p| (v, p)));
                let why = tried
                    .filter(|(_, p)| matching(p))
                    .find_map(|(v, p)| Kernel::new(v, &site, &p, device.limits(), sources).err());
                why.into_iter().for_each(|why| println!("    {why}"));
            }
        }
    }
    choices
}
