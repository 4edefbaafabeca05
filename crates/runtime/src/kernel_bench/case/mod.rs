//! A case: random operands for an instance, in the ranges that a model has, and what the reference makes of them.

mod matrix;
mod numbers;
mod segments;

pub(crate) use numbers::Draws;
pub use numbers::Numbers;

use crate::packed;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use wgoose_graph::{Format, Op, OperandKind};
use wgoose_kernels::{Arg, Args, Dense, Instance, Segment, StateFormat, UNWRITTEN, ops};

/// Multiplications beyond which the reference computes some columns of a product only.
const ALL_COLUMNS: u64 = 1 << 27;

/// Columns that it then computes.
const COLUMNS: usize = 256;

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
    pub(crate) numbers: Numbers,
    pub(crate) data: BTreeMap<&'static str, Data>,
    /// What y holds before the op runs: nothing ([`UNWRITTEN`]), or the residual it is added to.
    pub(crate) before: Vec<f32>,
}

impl Case {
    /// Random operands; the same seed gives the same case.
    pub fn random(instance: &Instance, numbers: Numbers, seed: u64) -> Case {
        let mut rng = Draws::new(seed);
        let domain = ops::kernels(&instance.op).domain;
        let slots = instance.segments as usize + rng.below(3) as usize;
        let (segments, token_segments) = segments::draw(instance, slots, &mut rng);
        let tokens = indices(instance.rows, instance.shard_rows, &mut rng);
        let mut data = BTreeMap::new();
        let mut before = vec![UNWRITTEN; instance.output_len()];
        for input in &instance.inputs {
            let (rows, cols) = (input.rows as usize, input.cols as usize);
            let len = input.planes as usize * rows * cols;
            let is_packed = instance.packed != Default::default();
            let drawn = numbers::Drawn { kind: input.kind, domain: domain(input.name), cols, is_packed };
            if instance.op.in_place() == Some(input.name) {
                before = drawn.values(len, numbers, &mut rng);
                continue;
            }
            let random = match input.kind {
                OperandKind::Value | OperandKind::Planes if instance.packed.x && input.name == "x" => {
                    Data::Packed(drawn.values(len, numbers, &mut rng))
                }
                OperandKind::Value | OperandKind::Planes | OperandKind::Vector => {
                    Data::Floats(drawn.values(len, numbers, &mut rng))
                }
                OperandKind::Matrix => {
                    let format = input.format.unwrap_or(Format::F32);
                    let wanted = match instance.op {
                        Op::Embed => tokens.iter().map(|t| *t as usize).collect::<BTreeSet<_>>().into_iter().collect(),
                        _ => wanted(instance, rows, &mut rng),
                    };
                    let range = drawn.domain.range();
                    let (bytes, dense) = matrix::Drawn { format, rows, cols, range, numbers, wanted }.draw(&mut rng);
                    Data::Matrix(bytes, dense)
                }
                OperandKind::OldState => Data::Floats(drawn.values(slots * len, numbers, &mut rng)),
                OperandKind::State => {
                    let (values, format) = (drawn.values(slots * len, numbers, &mut rng), instance.state_format());
                    Data::State(packed::unpack_state(&packed::pack_state(&values, format), format), format)
                }
                OperandKind::Segments => Data::Segments(segments.clone()),
                OperandKind::TokenSegments => Data::Indices(token_segments.clone()),
                OperandKind::Tokens => Data::Indices(tokens.clone()),
                OperandKind::OutputRows => {
                    let rows = instance.input("x").map_or(1, |x| x.rows);
                    Data::Indices(indices(instance.rows, rows, &mut rng))
                }
            };
            data.insert(input.name, random);
        }
        let mut case = Case { instance: instance.clone(), numbers, data, before };
        if numbers == Numbers::NotFinite {
            case.spoil(&mut rng);
        }
        case
    }

    /// Whether what is no number may reach more than it reaches in the reference: a chunk of the recurrence multiplies
    /// later tokens by 0, and everything behind them is lost anyway.
    pub(crate) fn may_spread(&self) -> bool {
        self.numbers == Numbers::NotFinite && self.instance.op.updates_wkv()
    }

    /// Makes one value of an activation NaN or infinite.
    fn spoil(&mut self, rng: &mut Draws) {
        let domain = ops::kernels(&self.instance.op).domain;
        let is_activation = |name: &str| {
            let kind = self.instance.input(name).map(|input| input.kind);
            matches!(kind, Some(OperandKind::Value | OperandKind::Planes))
                && matches!(domain(name), wgoose_kernels::Domain::Activations(_))
        };
        let names: Vec<&'static str> = self.data.keys().copied().filter(|name| is_activation(name)).collect();
        let Some(name) = names.get(rng.below(names.len() as u64) as usize) else { return };
        if let Some(Data::Floats(values)) = self.data.get_mut(name)
            && !values.is_empty()
        {
            let at = rng.below(values.len() as u64) as usize;
            values[at] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][rng.below(3) as usize];
        }
    }

    /// An operand's data in a data set: activations are other ones in each, those of the first moved on by some places.
    pub(crate) fn in_set<'d>(&self, set: usize, name: &str, data: &'d Data) -> Cow<'d, Data> {
        let kind = self.instance.input(name).map(|input| input.kind);
        if set == 0 || !matches!(kind, Some(OperandKind::Value | OperandKind::Planes)) {
            return Cow::Borrowed(data);
        }
        let mut other = data.clone();
        if let Data::Floats(values) | Data::Packed(values) = &mut other {
            let by = (7 * set + 1) % values.len().max(1);
            values.rotate_left(by);
        }
        Cow::Owned(other)
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

fn indices(n: u32, below: u32, rng: &mut Draws) -> Vec<u32> {
    (0..n).map(|_| rng.below(u64::from(below)) as u32).collect()
}

/// The rows of a matrix whose products the reference computes: all, or of a large product some, its first and last ones
/// among them.
fn wanted(instance: &Instance, rows: usize, rng: &mut Draws) -> Vec<usize> {
    let is_product = matches!(
        instance.op,
        Op::Matmul { .. }
            | Op::MatmulAdd
            | Op::NormMatmul { .. }
            | Op::Project { .. }
            | Op::NormProject { .. }
            | Op::LoraDown { .. }
            | Op::LoraUp { .. }
    );
    let work = u64::from(instance.rows) * u64::from(instance.k) * rows as u64;
    if !is_product || work <= ALL_COLUMNS || rows <= COLUMNS {
        return (0..rows).collect();
    }
    let mut some: BTreeSet<usize> = (0..8).chain(rows - 8..rows).collect();
    while some.len() < COLUMNS {
        some.insert(rng.below(rows as u64) as usize);
    }
    some.into_iter().collect()
}
