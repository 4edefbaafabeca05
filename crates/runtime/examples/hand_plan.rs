//! Makes plans by hand: of a line of words each, the plan file that `wgoose bench --plan` and the tuner are held
//! against.
//!
//! `hand_plan MODEL SPECS FOLDER` writes `FOLDER/NAME.ron` for each line `NAME | THREADS | GRID | FUSIONS | CHOICES |
//! INTERLEAVE | SEQUENCES` of SPECS. THREADS and GRID describe the megakernel; GRID 0 is the chain of dispatches.
//! FUSIONS is `default` with additions and, after a minus, removals. CHOICES is `OP[@Kk]=VARIANT:NAME=VALUE,...;...`:
//! an op that it does not name takes the first kernel that can be a stage, or for several SEQUENCES the default.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use wgoose_graph::{BatchShape, Format, Weight, WeightClass};
use wgoose_kernels::persistent::can_be_stage;
use wgoose_kernels::plan::{Choice, TuningKey};
use wgoose_kernels::{Config, Instance, Kernel, Plan, Variant};
use wgoose_loader::Model;
use wgoose_plans::catalogue;
use wgoose_runtime::kernel_bench::open_measured;
use wgoose_runtime::{Device, DeviceOptions, Graphs};

/// The variant of an op, or of its instances with so many columns, and some of its tunables.
type Wanted<'s> = BTreeMap<&'s str, (&'s str, Vec<(&'s str, &'s str)>)>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [model, specs, folder] = &arguments[..] else { return Err("hand_plan MODEL SPECS FOLDER".into()) };
    let (model, device) = (Model::open(model)?, open_measured(&DeviceOptions::default())?);
    for line in std::fs::read_to_string(specs)?.lines().filter(|line| !line.trim().is_empty()) {
        let name = line.split('|').next().unwrap_or_default().trim();
        plan(&device, &model, line)
            .map_err(|why| format!("{name}: {why}"))?
            .save(&folder.join(format!("{name}.ron")))?;
    }
    Ok(())
}

fn plan(device: &Device, model: &Model, line: &str) -> Result<Plan, Box<dyn Error>> {
    let fields: Vec<&str> = line.split('|').map(str::trim).collect();
    let [_, threads, grid, fusions, choices, interleave, sequences] = fields[..] else {
        return Err("seven fields, a bar between them".into());
    };
    let (threads, grid, sequences): (u32, u32, u32) = (threads.parse()?, grid.parse()?, sequences.parse()?);
    let mut plan = Plan::default_for(device.fingerprint().clone(), *model.shape(), device.limits());
    for word in fusions.split(',').map(str::trim).filter(|word| *word != "default") {
        match word.strip_prefix('-') {
            Some(without) => drop(plan.fusions.decode.remove(&without.parse()?)),
            None => drop(plan.fusions.decode.insert(word.parse()?)),
        }
    }
    plan.fusions.batched.clone_from(&plan.fusions.decode);
    plan.interleave = interleave.split(',').filter(|f| !f.is_empty()).map(str::parse).collect::<Result<_, _>>()?;
    plan.persistent = (grid > 0).then_some(grid);
    let mut wanted = Wanted::new();
    for choice in choices.split(';').map(str::trim).filter(|choice| !choice.is_empty()) {
        let (op, variant) = choice.split_once('=').ok_or_else(|| format!("'{choice}' is no OP=VARIANT"))?;
        let (variant, config) = variant.split_once(':').unwrap_or((variant, ""));
        let config = config.split(',').filter_map(|part| part.split_once('=')).map(|(n, v)| (n.trim(), v.trim()));
        wanted.insert(op.trim(), (variant.trim(), config.collect()));
    }
    plan.choices = choices_of(device, model, &plan, (threads, sequences), &wanted)?;
    Ok(plan)
}

fn choices_of(
    device: &Device,
    model: &Model,
    plan: &Plan,
    (threads, sequences): (u32, u32),
    wanted: &Wanted<'_>,
) -> Result<Vec<Choice>, Box<dyn Error>> {
    let batch = BatchShape { tokens: sequences, segments: sequences, outputs: sequences };
    let graphs = Graphs::new(model.shape(), &plan.fusions, device.timeline())?;
    let (graph, catalogue) = (graphs.of(&batch), catalogue::embedded());
    let format = |w: Weight| match w.class() {
        WeightClass::Vector => Format::F32,
        _ => plan.format_on_gpu(w, model.tensor(w).format()),
    };
    let mut choices: Vec<Choice> = Vec::new();
    for id in graph.op_ids() {
        let instance = Instance::of(graph, id, &batch, &format);
        let key = TuningKey::of(&instance);
        let at = format!("{}@K{}", key.op, key.k);
        let of_op = wanted.get(at.as_str()).or_else(|| wanted.get(key.op.as_str()));
        if choices.iter().any(|c| c.key == key) || (sequences > 1 && of_op.is_none()) {
            continue;
        }
        // Kernels outside of layers are no stages: they may be of any width.
        let is_stage = threads > 0 && graph.op(id).layer.is_some();
        let suits = |variant: &Variant, config: &Config| {
            let spelled = variant.spell(config);
            let is_asked = |(name, value): &(&str, &str)| spelled.get(*name).is_some_and(|v| v == value);
            // What is asked for by name may be what a speed heuristic prunes.
            let is_wanted = match of_op {
                Some((name, set)) => variant.name() == *name && set.iter().all(is_asked),
                None => variant.admits(&instance, config, device.limits()).is_ok(),
            };
            is_wanted
                && Kernel::new(variant, &instance, config, device.limits())
                    .is_ok_and(|kernel| !is_stage || can_be_stage(&kernel, threads))
        };
        let mut configs = catalogue.variants(&key.op).iter().flat_map(|v| v.configs().into_iter().map(move |c| (v, c)));
        match configs.find(|(variant, config)| suits(variant, config)) {
            Some((variant, config)) => choices.push(Choice::new(key, variant, &config)?),
            None if of_op.is_some() => return Err(format!("no kernel of {key} is as asked for").into()),
            None => {}
        }
    }
    Ok(choices)
}
