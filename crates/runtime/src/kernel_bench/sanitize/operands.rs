//! Bindings of a kernel in a case, as bytes.

use crate::kernel_bench::Case;
use crate::kernel_bench::case::Data;
use crate::packed;
use crate::schedule::{ARRIVALS, UNIFORM_SEGMENTS};
use wgoose_kernels::{Access, Binding, Kernel};
use wgoose_sanitizer::Buffer;

/// Buffers have as many bytes as a load of a vec4 needs.
const ALIGNMENT: usize = 16;

/// The buffer of a binding; `None` if the case has none of that name.
pub(super) fn buffer(binding: &Binding, kernel: &Kernel, case: &Case) -> Option<Buffer> {
    let padded = |mut bytes: Vec<u8>| {
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        Buffer::of(bytes)
    };
    Some(match binding.name.as_str() {
        "params" => padded(bytemuck::bytes_of(&case.instance.params()).to_vec()),
        "partials" => Buffer::unwritten((kernel.partials as usize * 4).next_multiple_of(ALIGNMENT)),
        "arrivals" => padded(vec![0; 4 * ARRIVALS as usize]),
        "y" if case.instance.op.in_place().is_some() => padded(bytemuck::cast_slice(&case.before).to_vec()),
        "y" => {
            let bytes = if case.instance.packed.y { 2 } else { 4 };
            Buffer::unwritten((bytes * case.before.len()).next_multiple_of(ALIGNMENT))
        }
        name => padded(bytes(case.data.get(name)?, binding.access)),
    })
}

fn bytes(data: &Data, access: Access) -> Vec<u8> {
    match data {
        Data::Floats(values) => bytemuck::cast_slice(values).to_vec(),
        Data::Packed(values) => packed::pack(values),
        Data::Indices(indices) => bytemuck::cast_slice(indices).to_vec(),
        Data::Segments(segments) => {
            let mut bytes: Vec<u8> = bytemuck::cast_slice(segments).to_vec();
            if access == Access::Uniform {
                bytes.resize(bytes.len().max(16 * UNIFORM_SEGMENTS as usize), 0);
            }
            bytes
        }
        Data::Matrix(bytes, _) => bytes.clone(),
        Data::State(values, format) => packed::pack_state(values, *format).into_owned(),
    }
}
