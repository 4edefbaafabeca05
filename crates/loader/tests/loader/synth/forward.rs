//! The forward pass in f64, one token at a time: the formulas and nothing else.

use std::collections::HashMap;
use wgoose_graph::{Format, LayerWeight as L, ModelShape, Weight, WeightClass};
use wgoose_loader::blocks::{decode, encode};
use wgoose_loader::synth::{self, SynthOptions};

/// All weights of a model, and what it remembers.
#[derive(Clone)]
pub(crate) struct Model {
    shape: ModelShape,
    pub(crate) weights: HashMap<Weight, Vec<f64>>,
    layers: Vec<Layer>,
    /// The largest square of the channel mix so far.
    pub(crate) peak: f64,
    /// How many squares there were, and how many of them were zero.
    pub(crate) squares: (usize, usize),
}

#[derive(Clone)]
struct Layer {
    att_shift: Vec<f64>,
    ffn_shift: Vec<f64>,
    /// `[head][value][key]`
    wkv: Vec<f64>,
}

impl Model {
    /// The model `options` describe; matrices and adapters rounded to f16 unless `exact`.
    pub(crate) fn new(options: &SynthOptions, exact: bool) -> Self {
        let shape = options.shape;
        let load = |weight: Weight| {
            let [rows, _] = weight.shape(&shape);
            let mut numbers = synth::weight(options, weight, 0..rows);
            if !exact && weight.class() != WeightClass::Vector {
                let mut bytes = vec![0; 2 * numbers.len()];
                encode(Format::F16, &numbers, &mut bytes);
                decode(Format::F16, &bytes, &mut numbers);
            }
            (weight, numbers.into_iter().map(f64::from).collect())
        };
        let c = shape.width as usize;
        let layer =
            Layer { att_shift: vec![0.0; c], ffn_shift: vec![0.0; c], wkv: vec![0.0; c * shape.head_size as usize] };
        let layers = vec![layer; shape.layers as usize];
        Model { shape, weights: Weight::all(&shape).map(load).collect(), layers, peak: 0.0, squares: (0, 0) }
    }

    /// The logits after one more token.
    pub(crate) fn step(&mut self, token: u32) -> Vec<f64> {
        let (c, n) = (self.shape.width as usize, self.shape.head_size as usize);
        let weights = &self.weights;
        let row = &weights[&Weight::Embedding][token as usize * c..][..c];
        let mut x = norm(row, c, 1e-5, &weights[&Weight::Ln0Scale], &weights[&Weight::Ln0Bias]);
        let mut v_first = Vec::new();
        for (i, state) in self.layers.iter_mut().enumerate() {
            let w = |layer: L| weights[&Weight::Layer(i as u32, layer)].as_slice();

            let xx = norm(&x, c, 1e-5, w(L::Ln1Scale), w(L::Ln1Bias));
            let mixed: Vec<Vec<f64>> = w(L::AttMix).chunks(c).map(|mix| lerp(&xx, &state.att_shift, mix)).collect();
            let [xr, xw, xk, xv, xa, xg] = std::array::from_fn(|j| mixed[j].as_slice());
            state.att_shift.clone_from(&xx);
            let r = matvec(w(L::Receptance), xr);
            let mut k = matvec(w(L::Key), xk);
            let mut v = matvec(w(L::Value), xv);
            let lora = |bias: L, up: L, hidden: Vec<f64>| add(w(bias), &matvec(w(up), &hidden));
            let decay = lora(L::DecayBias, L::DecayUp, map(&matvec(w(L::DecayDown), xw), f64::tanh));
            let decay = map(&decay, |w| (-(-0.5_f64).exp() * sigmoid(w)).exp());
            let a = map(&lora(L::IclrBias, L::IclrUp, matvec(w(L::IclrDown), xa)), sigmoid);
            let g = matvec(w(L::GateUp), &map(&matvec(w(L::GateDown), xg), sigmoid));
            if i == 0 {
                v_first.clone_from(&v);
            } else {
                let blend = map(&lora(L::ValueBias, L::ValueUp, matvec(w(L::ValueDown), xv)), sigmoid);
                v = lerp(&v, &v_first, &blend);
            }
            let mut removal: Vec<f64> = k.iter().zip(w(L::RemovalKey)).map(|(k, s)| k * s).collect();
            for head in removal.chunks_mut(n) {
                let length = head.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-12);
                head.iter_mut().for_each(|x| *x /= length);
            }
            for j in 0..c {
                k[j] *= 1.0 + (a[j] - 1.0) * w(L::KeyIclr)[j];
            }
            let mut y = vec![0.0; c];
            for value in 0..c {
                let head = value / n * n..value / n * n + n;
                let s = &mut state.wkv[value * n..][..n];
                let removed: f64 = s.iter().zip(&removal[head.clone()]).map(|(s, kk)| -s * kk).sum();
                for (s, key) in s.iter_mut().zip(head) {
                    *s = *s * decay[key] + removed * removal[key] * a[key] + v[value] * k[key];
                    y[value] += *s * r[key];
                }
            }
            let mut y = norm(&y, n, 1e-5 * n as f64, w(L::LnXScale), w(L::LnXBias));
            for head in (0..c).step_by(n) {
                let bonus: f64 = (head..head + n).map(|j| r[j] * k[j] * w(L::Bonus)[j]).sum();
                for j in head..head + n {
                    y[j] = (y[j] + bonus * v[j]) * g[j];
                }
            }
            x = add(&x, &matvec(w(L::Output), &y));

            let xx = norm(&x, c, 1e-5, w(L::Ln2Scale), w(L::Ln2Bias));
            let hidden = matvec(w(L::FfnKey), &lerp(&xx, &state.ffn_shift, w(L::FfnMix)));
            state.ffn_shift = xx;
            let squares = map(&hidden, |h| h.max(0.0).powi(2));
            let zeros = squares.iter().filter(|x| **x == 0.0).count();
            self.squares = (self.squares.0 + squares.len(), self.squares.1 + zeros);
            self.peak = squares.iter().copied().fold(self.peak, f64::max);
            x = add(&x, &matvec(w(L::FfnValue), &squares));
        }
        matvec(&weights[&Weight::Head], &norm(&x, c, 1e-5, &weights[&Weight::LnOutScale], &weights[&Weight::LnOutBias]))
    }
}

/// Norm of each group of `n`, scaled and shifted.
fn norm(x: &[f64], n: usize, eps: f64, scale: &[f64], bias: &[f64]) -> Vec<f64> {
    let mut out = Vec::with_capacity(x.len());
    for (g, group) in x.chunks(n).enumerate() {
        let mean = group.iter().sum::<f64>() / n as f64;
        let variance = group.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
        let inverse = (variance + eps).sqrt().recip();
        out.extend(group.iter().enumerate().map(|(j, x)| (x - mean) * inverse * scale[g * n + j] + bias[g * n + j]));
    }
    out
}

/// Four sums at once: one alone would wait for each addition.
fn matvec(matrix: &[f64], x: &[f64]) -> Vec<f64> {
    let dot = |row: &[f64]| {
        let mut sums = [0.0; 4];
        for (row, x) in row.chunks_exact(4).zip(x.chunks_exact(4)) {
            for j in 0..4 {
                sums[j] += row[j] * x[j];
            }
        }
        sums.iter().sum()
    };
    matrix.chunks(x.len()).map(dot).collect()
}

fn lerp(from: &[f64], to: &[f64], mix: &[f64]) -> Vec<f64> {
    (0..from.len()).map(|j| from[j] + (to[j] - from[j]) * mix[j]).collect()
}

fn add(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn map(x: &[f64], f: impl Fn(f64) -> f64) -> Vec<f64> {
    x.iter().copied().map(f).collect()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
