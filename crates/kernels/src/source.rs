//! The WGSL files: in the binary, or read from a folder so that a kernel can be edited and timed without a rebuild.

use std::borrow::Cow;
use std::path::PathBuf;

/// A file of `kernels-wgsl/`, embedded.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Path below `kernels-wgsl/`.
    pub path: &'static str,
    /// Its text when the binary was built.
    pub text: &'static str,
}

/// Embeds a file of `kernels-wgsl/`.
macro_rules! wgsl {
    ($path:literal) => {
        $crate::source::File {
            path: $path,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels-wgsl/", $path)),
        }
    };
}
pub(crate) use wgsl;

/// What kernels import, by the name they import it with.
const SHARED: &[(&str, File)] = &[
    ("params", wgsl!("shared/params.wgsl")),
    ("unit", wgsl!("shared/unit.wgsl")),
    ("activation", wgsl!("shared/activation.wgsl")),
    ("epilogue", wgsl!("shared/epilogue.wgsl")),
    ("reduce_workgroup", wgsl!("shared/reduce_workgroup.wgsl")),
    ("reduce_subgroup", wgsl!("shared/reduce_subgroup.wgsl")),
    ("row_sum_workgroup", wgsl!("shared/row_sum_workgroup.wgsl")),
    ("row_sum_subgroup", wgsl!("shared/row_sum_subgroup.wgsl")),
    ("normed_rows", wgsl!("stages/normed_rows.wgsl")),
    ("naive_norm", wgsl!("stages/naive_norm.wgsl")),
    ("dealt_rows", wgsl!("stages/dealt_rows.wgsl")),
    ("norm_project", wgsl!("stages/norm_project.wgsl")),
    ("norm_project_rows", wgsl!("stages/norm_project_rows.wgsl")),
    ("norm_project_blocks", wgsl!("stages/norm_project_blocks.wgsl")),
    ("adapter_loads", wgsl!("stages/adapter_loads.wgsl")),
    ("norm_matmul", wgsl!("stages/norm_matmul.wgsl")),
    ("room", wgsl!("shared/room.wgsl")),
    ("room_f32", wgsl!("shared/room_f32.wgsl")),
    ("room_int8", wgsl!("shared/room_int8.wgsl")),
    ("room_blocks", wgsl!("shared/room_blocks.wgsl")),
    ("others", wgsl!("shared/others.wgsl")),
    ("row_products", wgsl!("stages/row_products.wgsl")),
    ("matrix_slab", wgsl!("shared/matrix_slab.wgsl")),
    ("matrix_tile", wgsl!("stages/matrix_tile.wgsl")),
    ("row_dots", wgsl!("stages/row_dots.wgsl")),
    ("dealt", wgsl!("stages/dealt.wgsl")),
    ("project", wgsl!("stages/project.wgsl")),
    ("project_rows", wgsl!("stages/project_rows.wgsl")),
    ("project_dots", wgsl!("stages/project_dots.wgsl")),
    ("project_rounded", wgsl!("stages/project_rounded.wgsl")),
    ("adapter_dots", wgsl!("stages/adapter_dots.wgsl")),
    ("lora_up", wgsl!("stages/lora_up.wgsl")),
    ("time_mix_core", wgsl!("stages/time_mix_core.wgsl")),
    ("head_rows", wgsl!("stages/head_rows.wgsl")),
    ("time_mix_heads", wgsl!("stages/time_mix_heads.wgsl")),
    ("weight/absent", wgsl!("shared/weight/absent.wgsl")),
    ("weight/bytes", wgsl!("shared/weight/bytes.wgsl")),
    ("weight/k_scales", wgsl!("shared/weight/k_scales.wgsl")),
    ("weight/f32", wgsl!("shared/weight/f32.wgsl")),
    ("weight/f16", wgsl!("shared/weight/f16.wgsl")),
    ("weight/bf16", wgsl!("shared/weight/bf16.wgsl")),
    ("weight/q8_0", wgsl!("shared/weight/q8_0.wgsl")),
    ("weight/q4_0", wgsl!("shared/weight/q4_0.wgsl")),
    ("weight/q4_k", wgsl!("shared/weight/q4_k.wgsl")),
    ("weight/q5_k", wgsl!("shared/weight/q5_k.wgsl")),
    ("weight/q6_k", wgsl!("shared/weight/q6_k.wgsl")),
    ("weight/q8_0t", wgsl!("shared/weight/q8_0t.wgsl")),
    ("weight/q4_0t", wgsl!("shared/weight/q4_0t.wgsl")),
    ("weight/q6_kt", wgsl!("shared/weight/q6_kt.wgsl")),
    ("weight/f16c", wgsl!("shared/weight/f16c.wgsl")),
    ("weight/q8_0c", wgsl!("shared/weight/q8_0c.wgsl")),
    ("weight/q4_0c", wgsl!("shared/weight/q4_0c.wgsl")),
    ("weight/q4_kc", wgsl!("shared/weight/q4_kc.wgsl")),
    ("weight/q6_kc", wgsl!("shared/weight/q6_kc.wgsl")),
    ("column/eights", wgsl!("shared/column/eights.wgsl")),
    ("reduce_lanes", wgsl!("shared/reduce_lanes.wgsl")),
    ("columns_f32", wgsl!("shared/columns_f32.wgsl")),
    ("columns_staged", wgsl!("shared/columns_staged.wgsl")),
    ("run_integers", wgsl!("shared/run_integers.wgsl")),
    ("columns_int8", wgsl!("shared/columns_int8.wgsl")),
    ("columns_int16", wgsl!("shared/columns_int16.wgsl")),
    ("columns_blocks", wgsl!("shared/columns_blocks.wgsl")),
    ("block/k_head", wgsl!("shared/block/k_head.wgsl")),
    ("block/q4_k", wgsl!("shared/block/q4_k.wgsl")),
    ("block/q5_k", wgsl!("shared/block/q5_k.wgsl")),
    ("block/q6_kt", wgsl!("shared/block/q6_kt.wgsl")),
    ("block_loads", wgsl!("stages/block_loads.wgsl")),
    ("block_rows", wgsl!("stages/block_rows.wgsl")),
    ("piece/absent", wgsl!("shared/piece/absent.wgsl")),
    ("piece/take", wgsl!("shared/piece/take.wgsl")),
    ("piece/eight", wgsl!("shared/piece/eight.wgsl")),
    ("piece/group", wgsl!("shared/piece/group.wgsl")),
    ("piece/pair", wgsl!("shared/piece/pair.wgsl")),
    ("piece/k_scales", wgsl!("shared/piece/k_scales.wgsl")),
    ("piece/f32", wgsl!("shared/piece/f32.wgsl")),
    ("piece/f16", wgsl!("shared/piece/f16.wgsl")),
    ("piece/bf16", wgsl!("shared/piece/bf16.wgsl")),
    ("piece/q8_0", wgsl!("shared/piece/q8_0.wgsl")),
    ("piece/q4_0", wgsl!("shared/piece/q4_0.wgsl")),
    ("piece/q4_k", wgsl!("shared/piece/q4_k.wgsl")),
    ("piece/q5_k", wgsl!("shared/piece/q5_k.wgsl")),
    ("piece/q6_k", wgsl!("shared/piece/q6_k.wgsl")),
    ("piece/q8_0t", wgsl!("shared/piece/q8_0t.wgsl")),
    ("piece/q4_0t", wgsl!("shared/piece/q4_0t.wgsl")),
    ("piece/q6_kt", wgsl!("shared/piece/q6_kt.wgsl")),
    ("repack/columns", wgsl!("repack/columns.wgsl")),
    ("repack/tiles", wgsl!("repack/tiles.wgsl")),
    ("lab/params", wgsl!("lab/params.wgsl")),
    ("sample/kept", wgsl!("sample/kept.wgsl")),
    ("sample/layout", wgsl!("sample/layout.wgsl")),
    ("sample/philox", wgsl!("sample/philox.wgsl")),
];

/// The file that `#import name` means.
pub(crate) fn shared(name: &str) -> Option<File> {
    all_shared().find(|(n, _)| *n == name).map(|(_, file)| file)
}

/// Whether a shared file is about one operand: it is renamed and bound where it is imported.
pub(crate) fn is_of_operand(name: &str) -> bool {
    ["weight/", "piece/", "block/", "column/"].iter().any(|folder| name.starts_with(folder))
}

/// Every shared file by the name it is imported with.
pub(crate) fn all_shared() -> impl Iterator<Item = (&'static str, File)> {
    SHARED.iter().copied()
}

/// Where the text of the files is taken from.
#[derive(Clone, Debug, Default)]
pub enum Sources {
    /// The binary.
    #[default]
    Embedded,
    /// A folder laid out like `kernels-wgsl/`; files it lacks are taken from the binary.
    Folder(PathBuf),
}

impl Sources {
    /// The text of a file.
    ///
    /// # Errors
    /// The file exists in the folder but cannot be read.
    pub fn read(&self, file: File) -> std::io::Result<Cow<'static, str>> {
        match self {
            Sources::Embedded => Ok(Cow::Borrowed(file.text)),
            Sources::Folder(folder) => match std::fs::read_to_string(folder.join(file.path)) {
                Ok(text) => Ok(Cow::Owned(text)),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Cow::Borrowed(file.text)),
                Err(e) => Err(e),
            },
        }
    }
}
