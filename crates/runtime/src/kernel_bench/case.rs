//! A case: random operands for an instance, in the ranges that a model has, and what the reference makes of them.

use crate::packed;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use wgoose_graph::{Format, OperandKind};
use wgoose_kernels::{Arg, Args, Dense, Instance, Segment, StateFormat, ops};
use wgoose_loader::blocks;

/// Distinct rows encoded for a matrix; larger ones repeat them (encoding a head takes longer than testing it).
const DISTINCT_ROWS: usize = 192;

/// One operand's data, on the CPU.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Floats(Vec<f32>),
    /// Floats that the GPU has as packed f16.
    Packed(Vec<f32>),
    Indices(Vec<u32>),
    Segments(Vec<Segment>),
    /// Bytes as on the GPU, and the same dequantised.
    Matrix(Vec<u8>, Dense),
    /// As the GPU has it: in f16, its values are such.
    State(Vec<f32>, StateFormat),
}

/// Random operands for an instance.
#[derive(Clone, Debug)]
pub struct Case {
    pub(crate) instance: Instance,
    pub(crate) data: BTreeMap<&'static str, Data>,
    /// What y holds before the op runs: NaN, or the residual it is added to.
    pub(crate) before: Vec<f32>,
}

/// Numbers of a range, the same for the same seed.
pub(crate) struct Draws(SplitMix64);

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        Draws(SplitMix64::seed_from_u64(seed))
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n.max(1)
    }

    fn floats(&mut self, n: usize, (low, high): (f32, f32)) -> Vec<f32> {
        (0..n).map(|_| low + (high - low) * (self.0.next_u64() >> 40) as f32 / (1u64 << 24) as f32).collect()
    }
}

impl Case {
    /// Random operands; the same seed gives the same case.
    pub fn random(instance: &Instance, seed: u64) -> Case {
        let mut rng = Draws::new(seed);
        let domain = ops::kernels(&instance.op).domain;
        let slots = instance.segments as usize + rng.below(3) as usize;
        let (segments, token_segments) = segments(instance, slots, &mut rng);
        let mut data = BTreeMap::new();
        let mut before = vec![f32::NAN; instance.output_len()];
        for input in &instance.inputs {
            let len = input.planes as usize * input.rows as usize * input.cols as usize;
            let range = domain(input.name);
            if instance.op.in_place() == Some(input.name) {
                before = rng.floats(len, range);
                continue;
            }
            let random = match input.kind {
                OperandKind::Value | OperandKind::Planes if instance.packed.x && input.name == "x" => {
                    Data::Packed(rng.floats(len, range))
                }
                OperandKind::Value | OperandKind::Planes | OperandKind::Vector => Data::Floats(rng.floats(len, range)),
                OperandKind::Matrix => {
                    let format = input.format.unwrap_or(Format::F32);
                    matrix(format, input.rows as usize, input.cols as usize, range, &mut rng)
                }
                OperandKind::OldState => Data::Floats(rng.floats(slots * len, range)),
                OperandKind::State => {
                    let (values, format) = (rng.floats(slots * len, range), instance.state_format());
                    Data::State(packed::unpack_state(&packed::pack_state(&values, format), format), format)
                }
                OperandKind::Segments => Data::Segments(segments.clone()),
                OperandKind::TokenSegments => Data::Indices(token_segments.clone()),
                OperandKind::Tokens => Data::Indices(indices(instance.rows, instance.shard_rows, &mut rng)),
                OperandKind::OutputRows => {
                    let rows = instance.input("x").map_or(1, |x| x.rows);
                    Data::Indices(indices(instance.rows, rows, &mut rng))
                }
            };
            data.insert(input.name, random);
        }
        Case { instance: instance.clone(), data, before }
    }

    /// With zeros in place of about that share of a value's elements.
    #[must_use]
    pub fn with_zeros(mut self, operand: &str, share: f32, seed: u64) -> Case {
        let mut rng = Draws::new(seed);
        if let Some(Data::Floats(values) | Data::Packed(values)) = self.data.get_mut(operand) {
            let drawn = rng.floats(values.len(), (0.0, 1.0));
            values.iter_mut().zip(drawn).filter(|(_, drawn)| *drawn < share).for_each(|(value, _)| *value = 0.0);
        }
        self
    }

    /// What the reference makes of it: y, and the state if the op has one.
    pub(crate) fn reference(&self) -> (Vec<f32>, Option<Vec<f32>>) {
        let mut y = self.before.clone();
        let mut state = self.data.values().find_map(|d| match d {
            Data::State(s, _) => Some(s.clone()),
            _ => None,
        });
        let mut args = Args::new();
        for (name, data) in &self.data {
            match data {
                Data::Floats(f) | Data::Packed(f) => args.insert(name, Arg::Floats(f)),
                Data::Indices(i) => args.insert(name, Arg::Indices(i)),
                Data::Segments(s) => args.insert(name, Arg::Segments(s)),
                Data::Matrix(_, dense) => args.insert(name, Arg::Matrix(dense)),
                Data::State(..) => {}
            }
        }
        if let Some(state) = &mut state {
            args.insert("state", Arg::State(state));
        }
        (ops::kernels(&self.instance.op).reference)(&self.instance, &mut args, &mut y);
        drop(args);
        (y, state)
    }
}

/// Splits the tokens among the segments, at least one each, and gives each a slot of its own.
fn segments(instance: &Instance, slots: usize, rng: &mut Draws) -> (Vec<Segment>, Vec<u32>) {
    let count = instance.segments.max(1);
    // An op with a row per segment has the tokens in what it reads.
    let tokens = instance.input("x").map_or(instance.rows, |x| x.rows).max(count);
    let mut cuts: Vec<u32> = Vec::new();
    while cuts.len() + 1 < count as usize {
        let cut = 1 + rng.below(u64::from(tokens) - 1) as u32;
        if !cuts.contains(&cut) {
            cuts.push(cut);
        }
    }
    cuts.extend([0, tokens]);
    cuts.sort_unstable();
    let mut order: Vec<u32> = (0..slots as u32).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i as u64 + 1) as usize);
    }
    let pairs = cuts.windows(2).enumerate();
    let table = pairs.clone().map(|(i, w)| Segment::new(w[0], w[1] - w[0], order[i])).collect();
    let of_token = pairs.flat_map(|(i, w)| std::iter::repeat_n(i as u32, (w[1] - w[0]) as usize)).collect();
    (table, of_token)
}

fn indices(n: u32, below: u32, rng: &mut Draws) -> Vec<u32> {
    (0..n).map(|_| rng.below(u64::from(below)) as u32).collect()
}

fn matrix(format: Format, rows: usize, cols: usize, range: (f32, f32), rng: &mut Draws) -> Data {
    let distinct = rows.min(DISTINCT_ROWS);
    let weights = rng.floats(distinct * cols, range);
    let (in_file, row_bytes) = (format.as_in_file(), cols / format.block_weights() * format.block_bytes());
    let mut bytes = vec![0; distinct * row_bytes];
    blocks::encode(in_file, &weights, &mut bytes);
    let mut dense = vec![0.0; distinct * cols];
    blocks::decode(in_file, &bytes, &mut dense);
    let repeat = |i: usize| i % distinct;
    let mut bytes = (0..rows).map(|i| &bytes[repeat(i) * row_bytes..][..row_bytes]).collect::<Vec<_>>().concat();
    if format.is_interleaved() {
        let mut interleaved = vec![0; bytes.len().next_multiple_of(Format::INTERLEAVED_BLOCKS * format.block_bytes())];
        blocks::interleave(in_file, &bytes, &mut interleaved);
        bytes = interleaved;
    }
    if format.is_k_major() {
        let mut k_major = vec![0; format.bytes(rows, cols).unwrap_or_default()];
        blocks::to_k_major(in_file, cols, &bytes, &mut k_major);
        bytes = k_major;
    }
    Data::Matrix(bytes, Dense { rows, cols, data: dense })
}
