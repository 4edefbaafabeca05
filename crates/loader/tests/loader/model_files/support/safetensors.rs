//! Writes safetensors.

use super::Tensor;

pub(crate) fn write(tensors: &[Tensor]) -> Vec<u8> {
    let mut entries = vec![r#""__metadata__":{"format":"pt"}"#.to_owned()];
    let mut at = 0;
    for t in tensors {
        let end = at + t.bytes.len();
        let (name, dtype, dims) = (&t.name, t.format, &t.dims);
        entries.push(format!(r#""{name}":{{"dtype":"{dtype}","shape":{dims:?},"data_offsets":[{at},{end}]}}"#));
        at = end;
    }
    with_header(
        &format!("{{{}}}", entries.join(",")),
        &tensors.iter().flat_map(|t| t.bytes.clone()).collect::<Vec<_>>(),
    )
}

pub(crate) fn with_header(header: &str, data: &[u8]) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    file
}
