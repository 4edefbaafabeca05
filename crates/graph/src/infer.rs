//! The shape of what an op makes, and whether its operands fit it.

use crate::{ModelShape, Op, Rows, ValueShape};

impl Op {
    /// The shape of `y`, given the shape of each value operand and `[rows, cols]` of each weight operand by name.
    ///
    /// # Errors
    /// What does not fit, in words.
    pub(crate) fn infer(
        &self,
        model: &ModelShape,
        input: &dyn Fn(&str) -> Option<ValueShape>,
    ) -> Result<ValueShape, String> {
        let get = |name: &str| input(name).ok_or_else(|| format!("operand '{name}' is missing"));
        let same = |names: &[&str]| -> Result<ValueShape, String> {
            let first = get(names[0])?;
            for name in &names[1..] {
                let other = get(name)?;
                if other != first {
                    return Err(format!("'{name}' is {other} but '{}' is {first}", names[0]));
                }
            }
            Ok(first)
        };
        let vector = |name: &str, rows: u32, cols: u32| -> Result<(), String> {
            let want = ValueShape { planes: 1, rows: Rows::Fixed(rows), cols };
            match get(name)? {
                got if got == want => Ok(()),
                got => Err(format!("'{name}' is {got}, expected {want}")),
            }
        };
        let product = |x: ValueShape, name: &str| -> Result<ValueShape, String> {
            match get(name)? {
                ValueShape { planes: 1, rows: Rows::Fixed(m), cols } if cols == x.cols => {
                    Ok(ValueShape { planes: 1, rows: x.rows, cols: m })
                }
                w => Err(format!("'{name}' is {w} but its input has {} columns", x.cols)),
            }
        };
        let six_planes = || match get("x")? {
            x if x.planes == 6 => Ok(x),
            x => Err(format!("'x' is {x}, expected the six mixed planes")),
        };
        let adapter_rows = |x: ValueShape, value: bool| -> Result<u32, String> {
            present(["w1", "a1", "v1", "g1"], value).map(|name| Ok(product(x, name)?.cols)).sum()
        };
        let normed = |planes: u32| -> Result<ValueShape, String> {
            let x = get("x")?;
            vector("scale", 1, x.cols)?;
            vector("bias", 1, x.cols)?;
            vector("mix", planes, x.cols)?;
            Ok(x)
        };
        let projected = |x: ValueShape, value: bool| -> Result<ValueShape, String> {
            for name in ["w_r", "w_k", "w_v"] {
                if product(x, name)?.cols != x.cols {
                    return Err(format!("'{name}' is {}, expected a square", get(name)?));
                }
            }
            match adapter_rows(x, value)? {
                ranks if ranks <= x.cols => Ok(x),
                ranks => Err(format!("{ranks} hidden values of the adapters do not fit in {} columns", x.cols)),
            }
        };
        let hidden_fit = |x: ValueShape, value: bool| -> Result<(), String> {
            let hidden = present(["w2", "a2", "v2", "g2"], value).map(|name| Ok(get(name)?.cols));
            match hidden.sum::<Result<u32, String>>()? {
                ranks if ranks <= x.cols => Ok(()),
                ranks => Err(format!("'x' is {x}, but the adapters have {ranks} hidden values")),
            }
        };
        match self {
            Op::Embed => Ok(ValueShape { planes: 1, rows: Rows::Tokens, cols: get("table")?.cols }),
            Op::LayerNorm { .. } | Op::GroupNorm { .. } => {
                let x = get("x")?;
                vector("scale", 1, x.cols)?;
                vector("bias", 1, x.cols)?;
                Ok(x)
            }
            Op::SelectRows => Ok(ValueShape { rows: Rows::Outputs, ..get("x")? }),
            Op::SumRows => Ok(ValueShape { rows: Rows::Segments, ..get("x")? }),
            Op::TokenShift => get("x"),
            Op::Lerp { planes } => {
                let x = same(&["x", "dx"])?;
                vector("mix", *planes, x.cols)?;
                Ok(ValueShape { planes: *planes, ..x })
            }
            Op::Matmul { .. } => product(get("x")?, "w"),
            Op::MatmulAdd => {
                let y = product(get("x")?, "w")?;
                match get("residual")? {
                    r if r == y => Ok(y),
                    r => Err(format!("'residual' is {r} but the product is {y}")),
                }
            }
            Op::Activate { .. } => get("x"),
            Op::BiasActivate { .. } => {
                let x = get("x")?;
                vector("bias", 1, x.cols)?;
                Ok(x)
            }
            Op::ValueResidual => same(&["v", "v_first", "gate"]),
            Op::RemovalKey => {
                let k = get("k")?;
                vector("k_k", 1, k.cols)?;
                Ok(k)
            }
            Op::KeyUpdate => {
                let k = same(&["k", "a"])?;
                vector("k_a", 1, k.cols)?;
                Ok(k)
            }
            Op::Wkv => same(&["r", "decay", "k", "v", "kk", "a"]),
            Op::Bonus => {
                let x = same(&["x", "r", "k", "v"])?;
                vector("r_k", 1, x.cols)?;
                Ok(x)
            }
            Op::Mul | Op::Add => same(&["a", "b"]),
            Op::TokenMatmul => {
                let x = get("x")?;
                match get("matrices")? {
                    m if (m.planes, m.rows, m.cols) == (x.planes, x.rows, x.cols * x.cols) => Ok(x),
                    m => Err(format!("'matrices' is {m}, expected a square matrix of {} rows for each of {x}", x.cols)),
                }
            }
            Op::NormShift { planes, .. } => Ok(ValueShape { planes: *planes, ..normed(*planes)? }),
            Op::LoraDown { value } => {
                let x = six_planes()?;
                Ok(ValueShape { planes: 1, rows: x.rows, cols: adapter_rows(x, *value)? })
            }
            Op::LoraUp { value } => {
                let x = get("x")?;
                hidden_fit(x, *value)?;
                Ok(ValueShape { planes: 4, rows: x.rows, cols: model.width })
            }
            Op::Project { value } => Ok(ValueShape { planes: 4, ..projected(six_planes()?, *value)? }),
            Op::NormProject { value, .. } => Ok(ValueShape { planes: 5, ..projected(normed(6)?, *value)? }),
            Op::NormMatmul { .. } => {
                let x = normed(1)?;
                match product(x, "w")? {
                    y if y.cols >= x.cols => Ok(ValueShape { planes: 2, ..y }),
                    y => Err(format!("the normed row has {} columns and does not fit in {}", x.cols, y.cols)),
                }
            }
            Op::ShiftStore => match get("x")? {
                x if x.cols >= model.width => Ok(ValueShape { planes: 0, rows: x.rows, cols: model.width }),
                x => Err(format!("'x' is {x}, but the state has {} columns", model.width)),
            },
            Op::TimeMixCore { value, .. } => {
                let x = same(&["r", "k", "v", "decay", "a", "g"])?;
                if *value {
                    same(&["v", "v_first", "gate"])?;
                }
                for name in ["k_k", "k_a", "r_k", "scale", "bias"] {
                    vector(name, 1, x.cols)?;
                }
                Ok(x)
            }
            Op::WkvHeads { value } => {
                let y = same(&["r", "k", "v", "decay", "a"])?;
                if *value {
                    same(&["v", "v_first", "gate"])?;
                }
                vector("k_k", 1, y.cols)?;
                vector("k_a", 1, y.cols)?;
                Ok(y)
            }
            Op::HeadOutput { value, .. } => {
                let x = same(&["x", "r", "k", "v", "a", "g"])?;
                if *value {
                    same(&["v", "v_first", "gate"])?;
                }
                for name in ["k_a", "r_k", "scale", "bias"] {
                    vector(name, 1, x.cols)?;
                }
                Ok(x)
            }
            Op::TimeMixHeads { value, .. } => {
                let y = same(if *value { &["r", "k", "v", "v_first"] } else { &["r", "k", "v"] })?;
                match get("x")? {
                    x if (x.planes, x.rows) == (y.planes, y.rows) => hidden_fit(x, *value)?,
                    x => return Err(format!("'x' is {x} but 'r' is {y}")),
                }
                for name in ["k_k", "k_a", "r_k", "scale", "bias"] {
                    vector(name, 1, y.cols)?;
                }
                Ok(y)
            }
        }
    }
}

/// The names of four adapters' matrices, without the third where the value residual takes no part.
fn present(names: [&'static str; 4], value: bool) -> impl Iterator<Item = &'static str> {
    names.into_iter().enumerate().filter(move |(i, _)| value || *i != 2).map(|(_, name)| name)
}
