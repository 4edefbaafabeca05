//! The table of renames: what variants, tunables and reasons are called now, and every difference with its reason.

use wgoose_kernels::SpelledConfig;

/// A variant in today's words.
pub(crate) struct Renamed {
    pub(crate) variant: &'static str,
    pub(crate) config: Box<dyn Fn(&SpelledConfig) -> SpelledConfig + Sync>,
}

/// What took the place of a variant.
pub(crate) fn renamed(op: &str, old: &str) -> Renamed {
    let (variant, import): (&'static str, Option<(&'static str, &'static str)>) = match (op, old) {
        ("layer_norm", scope) => ("row", Some(("reduce", of_scope(scope)))),
        ("time_mix_core", scope) => ("heads", Some(("row_reduce", of_scope(scope)))),
        ("time_mix_heads", "subgroup") => ("heads", None),
        ("time_mix_heads", "plain") | ("lora_up", "elements") => ("naive", None),
        ("norm_shift", "workgroup") => ("rows", None),
        ("lora_down", "rows") | ("lora_up", "rows") => ("gemv_dequant", None),
        ("lora_down", scope) => ("columns", Some(("reduce", of_scope(scope)))),
        ("lora_up", "dot_subgroup") => ("gemv_subgroup", None),
        (_, "matrix_units") => ("gemm_coop", None),
        (_, "split_tiled") => ("gemm_tiled_splitk", None),
        (_, "tiled") => ("gemm_tiled", None),
        (_, "sparse") => ("gemv_sparse", None),
        (_, "dot_columns") => ("gemv_batched", None),
        (_, "dot_subgroup") => ("gemv_subgroup", None),
        (_, "dot_workgroup") => ("gemv_workgroup", None),
        (_, "rows_subgroup") => ("gemv_dequant", Some(("reduce", "subgroup"))),
        (_, "rows_workgroup") => ("gemv_dequant", Some(("reduce", "workgroup"))),
        ("project", "int8_subgroup") => ("gemv_batched_rounded", Some(("x", "q8"))),
        ("project", "int16_subgroup") => ("gemv_batched_rounded", Some(("x", "q15"))),
        (_, "int8_subgroup") => ("gemv_batched_q8", None),
        (_, "dealt") => ("gemv_fixed_grid", Some(("x", "f32"))),
        (_, "dealt_int8") => ("gemv_fixed_grid", Some(("x", "q8"))),
        (_, "dealt_int16") => ("gemv_fixed_grid", Some(("x", "q15"))),
        (_, "dealt_blocks") => ("gemv_fixed_grid_k", None),
        (_, "elements") => ("elements", None),
        (_, "heads") => ("heads", None),
        (_, "slices") => ("slices", None),
        (_, "columns") => ("columns", None),
        (_, "rows") => ("rows", None),
        (_, "naive") => ("naive", None),
        _ => panic!("{op} {old} has no place in the table"),
    };
    let (op, old) = (op.to_owned(), old.to_owned());
    let config = move |config: &SpelledConfig| {
        let named = |(name, value): (&String, &String)| {
            let name = tunable(&op, &old, name).to_owned();
            let value = if name == "GRID" { of_multiprocessors(value).to_owned() } else { value.clone() };
            (name, value)
        };
        let import = import.map(|(name, choice)| (name.to_owned(), choice.to_owned()));
        config.iter().map(named).chain(import).collect()
    };
    Renamed { variant, config: Box::new(config) }
}

fn of_scope(scope: &str) -> &'static str {
    if scope == "subgroup" { "subgroup" } else { "workgroup" }
}

fn tunable<'a>(op: &str, variant: &str, name: &'a str) -> &'a str {
    match (op, variant, name) {
        ("sum_rows", _, "LANES") => "THREADS_PER_COLUMN",
        ("time_mix_heads", _, "LANES") => "MAX_THREADS_PER_ROW",
        ("wkv" | "time_mix_core", _, "SPLIT") => "THREADS_PER_ROW",
        (_, "sparse", "EIGHTS") => "PANELS",
        (_, "sparse", "AHEAD") => "PREFETCH_DEPTH",
        (_, "sparse", "SLABS") => "K_TILES",
        (_, "int8_subgroup", "SLAB") => "K_TILE",
        (_, _, "LANES") => "THREADS_PER_ROW",
        (_, _, "NEIGHBOURS") => "LANES_PER_GROUP",
        (_, _, "UNITS") => "GRID",
        (_, _, "SPLIT" | "PARTS") => "SPLIT_K",
        (_, _, "DEPTH") => "K_STEPS",
        (_, _, "AHEAD") => "PREFETCH_DEPTH",
        (_, _, "FRAGMENT") => "REGISTER_TILE",
        (_, _, name) => name,
    }
}

/// Workgroups of a fixed grid on the device that they were written down for.
fn of_multiprocessors(workgroups: &str) -> &'static str {
    match workgroups {
        "66" => "SM/2",
        "132" => "SM",
        "264" => "2*SM",
        "528" => "4*SM",
        other => panic!("{other} is no multiple of 132"),
    }
}

/// Old reasons and what they are now. Legality is decided before hunches, and features and readers before both: a configuration
/// that breaks several rules may name another one than it did.
pub(crate) const REASONS: &[(&str, &str)] = &[
    ("a matrix has no blocks of K-quants at addresses of 16 bytes", "no reader"),
    ("a matrix has no integers at addresses of 16 bytes", "k in groups of 32"),
    ("a matrix has no integers at addresses of 16 bytes", "no reader"),
    ("a matrix has no integers at addresses of 16 bytes", "rounded x is multiplied with integers at 16-byte addresses"),
    ("a matrix has no integers at addresses of 16 bytes", "the matrices have integers at 16-byte addresses"),
    ("a matrix has no integers at addresses of 16 bytes", "the matrix has integers at 16-byte addresses"),
    ("a matrix in columns has no pieces of a row", "no reader"),
    ("a smaller slab holds all of x", "pruned: a smaller K-tile holds all of x"),
    ("an invocation would have less than four columns of the state", "a thread has at least four columns of the state"),
    ("every rank must be a multiple of 32", "ranks in groups of 32"),
    ("feature: f16", "feature: f16"),
    ("fewer columns than are on their way", "pruned: fewer columns than are in flight"),
    ("fewer half blocks than a round takes", "pruned: fewer half blocks than an iteration takes"),
    ("fewer pieces than a round takes", "pruned: fewer loads than an iteration takes"),
    ("k and every rank must be multiples of 8", "hidden values begin at a load"),
    ("k must be a multiple of 16", "matrix units take 16 columns at a time"),
    ("k must be a multiple of 32", "k in groups of 32"),
    ("k must be a multiple of 32", "no reader"),
    ("limit: invocations per subgroup", "k in groups of 32"),
    ("limit: invocations per subgroup", "no reader"),
    ("limit: invocations per subgroup", "the lanes that quantise together are in one subgroup"),
    ("limit: invocations per subgroup", "the threads of a row are in one subgroup"),
    ("matrix units multiply f16", "no reader"),
    ("more loads on their way than registers to keep them", "a thread finishes one row"),
    ("more loads on their way than registers to keep them", "partial sums fit in workgroup memory"),
    ("more loads on their way than registers to keep them", "pruned: register pressure"),
    (
        "more sums than registers to keep them",
        "pruned: loops are unrolled for seven matrices: drivers take minutes for more sums",
    ),
    ("more sums than registers to keep them", "pruned: register pressure"),
    ("more tokens per workgroup than there are", "pruned: more tokens per workgroup than there are"),
    ("most invocations would have no channel", "pruned: most threads have no channel"),
    ("most invocations would have no columns", "pruned: most threads have no columns"),
    ("most invocations would have no weights", "pruned: most lanes have no weights"),
    ("most invocations would have no weights", "pruned: most threads have no weights"),
    ("most loads of a round would be in vain", "a thread finishes one row"),
    ("most loads of a round would be in vain", "partial sums fit in workgroup memory"),
    ("most loads of a round would be in vain", "pruned: most lanes idle in the last iteration"),
    ("most workgroups would have no rows", "pruned: most workgroups have no rows"),
    ("so few tokens leave most of a tile empty", "matrix units take 16 columns at a time"),
    ("so few tokens leave most of a tile empty", "pruned: so few tokens leave most of a tile empty"),
    ("so few tokens leave most of a tile empty", "tiles end where the rows do"),
    ("so many tokens need every column", "pruned: so many tokens need every column"),
    ("that many rows keep a device busy as they are", "pruned: so many rows fill the device as they are"),
    ("that many tokens and rows have tiles enough", "pruned: enough tiles to fill the device without split-K"),
    ("the matrix is not in columns", "no reader"),
    ("tiles do not end where the rows do", "tiles end where the rows do"),
    ("too many rows to split each", "a thread finishes one row"),
    ("too many rows to split each", "partial sums fit in workgroup memory"),
    ("unrolled rounds are for one token", "pruned: unrolled iterations are for one token"),
];

/// What differs, and why.
pub(crate) const DIFFERENCES: &[(&str, &str)] = &[(
    "sum_rows/columns: admits what was refused: limit: invocations per subgroup",
    "its LANES were no lanes of a subgroup but threads that share a column; the rule went by the name of the tunable",
)];

/// Defaults that are others, each with its reason.
pub(crate) const DEFAULT_DIFFERENCES: &[(&str, &str)] = &[(
    "sum_rows on a bare device: columns COLS=8 THREADS_PER_COLUMN=4 is now columns COLS=32 THREADS_PER_COLUMN=8",
    "its threads of a column need no subgroup: the rule that refused the default there did not apply",
)];
