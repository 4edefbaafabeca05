//! An allocation as JSON, for the command line and for Python.

use super::{AllocatedTensor, Allocation, MeasuredMix};
use serde_json::{Value, json};

impl Allocation {
    /// The divergence of the chosen mix, measured and estimated, every matrix with all its formats, and the mixes beside it.
    pub fn json(&self) -> Value {
        json!({
            "tokens": self.tokens,
            "kl": self.chosen.kl,
            "estimated_kl": self.estimate,
            "mixes": self.mixes.iter().map(mix).collect::<Vec<_>>(),
            "tensors": self.tensors.iter().map(tensor).collect::<Vec<_>>(),
        })
    }
}

fn mix(mix: &MeasuredMix) -> Value {
    let all = mix.divergence.all();
    json!({
        "name": mix.name,
        "bytes": mix.bytes,
        "mean_kl": all.mean_kl(),
        "kl_99": mix.divergence.kl_99(),
        "max_kl": all.max_kl,
        "agreement": all.agreement(),
    })
}

fn tensor(tensor: &AllocatedTensor) -> Value {
    let format = |format: &super::MeasuredFormat| json!({ "format": format.format.name(), "bytes": format.bytes, "kl": format.kl });
    json!({
        "tensor": tensor.weight.to_string(),
        "format": tensor.formats[tensor.chosen].format.name(),
        "formats": tensor.formats.iter().map(format).collect::<Vec<_>>(),
    })
}
