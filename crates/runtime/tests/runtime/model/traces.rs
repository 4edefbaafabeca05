//! Traces and comparisons: every op by name, the results of a plain pass, and a broken kernel found and named.

use crate::model::world::{SHAPE, all, cpu, default_plan, device, gpu, model, read, tokens};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use wgoose_graph::{Fusion, State};
use wgoose_kernels::plan::Fusions;
use wgoose_kernels::{Catalogue, Plan};
use wgoose_loader::Model;
use wgoose_loader::synth::Mix;
use wgoose_plans::catalogue;
use wgoose_runtime::{Batch, Engine, GpuExecutor, OpError, Outputs, Place, Residency, RuntimeError, Sequence};

/// Two sequences of unequal lengths, or of one token each.
fn batch(lengths: [usize; 2]) -> Batch {
    let tokens = [tokens(1, lengths[0]), tokens(2, lengths[1])];
    let of = |slot: usize| Sequence { slot, tokens: &tokens[slot], outputs: Outputs::Last };
    Batch::pack(&[of(1), of(0)], SHAPE.vocab, 2).unwrap()
}

fn executor(model: &Arc<Model>, plan: impl Fn(Plan) -> Plan, catalogue: Arc<Catalogue>) -> GpuExecutor {
    let device = device();
    let plan = plan(default_plan(&device, model));
    GpuExecutor::new(device, Arc::clone(model), plan, catalogue, 2).unwrap()
}

fn unfused(plan: Plan) -> Plan {
    Plan { fusions: Fusions::all(Default::default()), ..plan }
}

fn fused(plan: Plan) -> Plan {
    Plan { fusions: Fusions { decode: Fusion::ALL.into(), ..plan.fusions.clone() }, ..plan }
}

/// Shape and values by layer, pass and name.
type Values = BTreeMap<(Option<u32>, usize, String), ([usize; 3], Vec<f32>)>;

fn traced(engine: &mut Engine, tokens: &[u32]) -> (Values, Vec<f32>) {
    let mut values = Values::new();
    let logits = engine.trace(&[all(0, tokens)], &mut |v| {
        let known = values.insert((v.layer, v.pass, v.name.to_owned()), (v.shape, v.values.to_vec()));
        assert!(known.is_none(), "two ops of layer {:?} are named {}", v.layer, v.name);
        assert_eq!(v.values.len(), v.shape.iter().product::<usize>());
        ControlFlow::Continue(())
    });
    (values, logits.unwrap().remove(0))
}

#[test]
fn a_trace_changes_nothing_and_shows_every_op() {
    let (device, model, tokens) = (device(), model(Mix::F16), tokens(3, 11));
    let engines: [&dyn Fn() -> Engine; 2] =
        [&|| gpu(&device, &model, 1).with_chunk(4), &|| cpu(&model, 1).with_chunk(4)];
    for engine in engines {
        let (mut plain, mut looked_at) = (engine(), engine());
        let (values, logits) = traced(&mut looked_at, &tokens);
        assert_eq!(logits, read(&mut plain, &tokens));
        assert_eq!(looked_at.state(0).unwrap(), plain.state(0).unwrap());
        let passes = values.keys().map(|(_, pass, _)| *pass).max().unwrap() + 1;
        assert_eq!(passes, 3);
        let (shape, last) = &values[&(None, 2, "head".to_owned())];
        assert_eq!((*shape, &last[..]), ([1, 3, SHAPE.vocab as usize], &logits[8 * SHAPE.vocab as usize..]));
        for layer in 0..SHAPE.layers {
            assert_eq!(values[&(Some(layer), 0, "att.output".to_owned())].0, [1, 4, SHAPE.width as usize]);
        }
    }
}

#[test]
fn gpu_and_cpu_agree_on_outputs_of_equal_names() {
    let model = model(Mix::F16);
    let tokens = tokens(4, 6);
    let (ours, _) = traced(&mut Engine::new(Box::new(executor(&model, unfused, catalogue::embedded())), 64), &tokens);
    let (reference, _) = traced(&mut cpu(&model, 1), &tokens);
    assert_eq!(ours.keys().collect::<Vec<_>>(), reference.keys().collect::<Vec<_>>());
    for (name, (shape, values)) in &ours {
        let (wanted_shape, wanted) = &reference[name];
        assert_eq!(shape, wanted_shape, "{name:?}");
        let size = wanted.iter().map(|x| x * x).sum::<f32>().sqrt();
        let error = values.iter().zip(wanted).map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt();
        assert!(error <= 2e-2 * size, "{name:?} is off by {error} of {size}");
    }
}

#[test]
fn right_kernels_pass() {
    for mix in [Mix::F16, Mix::Q4_K_M] {
        let model = model(mix);
        for plan in [unfused as fn(Plan) -> Plan, |plan| plan, fused] {
            let mut executor = executor(&model, plan, catalogue::embedded());
            for lengths in [[5, 9], [1, 1]] {
                let batch = batch(lengths);
                let errors = executor.compare(&batch).unwrap();
                let ops = executor.record(&batch.shape()).unwrap().arena.order.len();
                assert_eq!(errors.len(), ops);
                for error in errors {
                    assert!(error.passed(), "{error}");
                }
            }
        }
    }
}

/// The kernels of the binary, one of them with a text replaced.
fn wrong(file: &str, from: &str, to: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels-wgsl").join(file);
    let text = std::fs::read_to_string(original).unwrap();
    assert!(text.contains(from), "{file} has no '{from}' any more");
    let path = folder.path().join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text.replace(from, to)).unwrap();
    folder
}

/// The first op that fails, and how many do.
fn first(errors: &[OpError]) -> (&OpError, usize) {
    let failed = errors.iter().filter(|e| !e.passed());
    (failed.clone().next().expect("the broken kernel was not found"), failed.count())
}

#[test]
fn a_broken_kernel_is_named_and_no_other() {
    let model = model(Mix::F16);
    // Only layers above the first have it.
    let folder = wrong("ops/value_residual/elements.wgsl", "* gate[i]", "* gate[i] * 1.001");
    let mut executor = executor(&model, unfused, catalogue::with_folder(folder.path()).unwrap());
    let errors = executor.compare(&batch([5, 9])).unwrap();
    let (error, failed) = first(&errors);
    assert_eq!((error.op, error.layer, failed), ("value_residual", Some(1), 1));
}

#[test]
fn a_state_that_is_written_wrong_is_named() {
    let model = model(Mix::F16);
    let folder = wrong("ops/token_shift/elements.wgsl", "segment.y - 1u", "segment.y - 2u");
    let mut executor = executor(&model, unfused, catalogue::with_folder(folder.path()).unwrap());
    let errors = executor.compare(&batch([5, 9])).unwrap();
    let (error, failed) = first(&errors);
    assert_eq!((error.op, error.layer, failed), ("token_shift", Some(0), 2 * SHAPE.layers as usize));
    assert!(matches!(error.place, Place::State { tensor: State::AttShift(0), .. }), "{error}");
}

#[test]
fn weights_that_take_turns_cannot_be_traced() {
    let model = model(Mix::F16);
    let mut executor = executor(&model, |plan| plan, catalogue::embedded());
    let Err(RuntimeError::BudgetTooSmall { need, .. }) = executor.set_residency(Residency::Budget(1)) else {
        panic!("one byte is enough");
    };
    executor.set_residency(Residency::Budget(need)).unwrap();
    assert!(matches!(executor.compare(&batch([5, 9])), Err(RuntimeError::Streamed)));
}
