//! `adapter_config.json`, which Hugging Face's `peft` saves beside an adapter.

use super::AdapterError;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

/// Its name.
const FILE: &str = "adapter_config.json";

/// Initialisations of a LoRA that change the weights of the model too: what is merged would have to begin with those.
const CHANGES_WEIGHTS: [&str; 5] = ["pissa", "olora", "corda", "loftq", "lora_ga"];

/// What a config says that matters here; all else concerns training.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PeftConfig {
    alpha: Option<f64>,
    /// Whether alpha is divided by the root of the rank.
    is_rank_stabilised: bool,
}

/// The fields, as `peft` names them (`tuners/lora/config.py`, `tuners/miss/config.py`).
#[derive(Deserialize)]
struct Fields {
    peft_type: Value,
    lora_alpha: Option<f64>,
    #[serde(default)]
    use_rslora: bool,
    #[serde(default)]
    use_dora: bool,
    #[serde(default)]
    fan_in_fan_out: bool,
    #[serde(default)]
    alpha_pattern: Value,
    #[serde(default)]
    init_lora_weights: Value,
    #[serde(default)]
    init_weights: Value,
}

impl PeftConfig {
    /// The config in a folder, if there is one.
    ///
    /// # Errors
    /// It cannot be read, or asks for what is not merged here.
    pub(super) fn in_folder(folder: &Path) -> Result<Option<Self>, AdapterError> {
        let path = folder.join(FILE);
        if !path.is_file() {
            return Ok(None);
        }
        let text = wgoose_files::read_to_string(&path).map_err(|e| AdapterError::Config { why: e.to_string() })?;
        PeftConfig::parse(&text).map(Some)
    }

    fn parse(text: &str) -> Result<Self, AdapterError> {
        let refused = |why: String| AdapterError::Config { why };
        let fields: Fields = serde_json::from_str(text).map_err(|e| refused(e.to_string()))?;
        let is_set = |value: &Value| value.as_object().is_some_and(|patterns| !patterns.is_empty());
        let initial = fields.init_lora_weights.as_str().unwrap_or_default().to_ascii_lowercase();
        let kind = fields.peft_type.as_str().unwrap_or_default();
        if !["LORA", "MISS", "BONE"].contains(&kind) {
            return Err(refused(format!("adapters of type {} are not merged here", fields.peft_type)));
        }
        if fields.use_dora {
            return Err(refused("DoRA (use_dora) is not merged here".to_owned()));
        }
        if fields.fan_in_fan_out {
            return Err(refused("transposed weights (fan_in_fan_out) are none of RWKV-7's".to_owned()));
        }
        if is_set(&fields.alpha_pattern) {
            return Err(refused("an alpha for each module (alpha_pattern) is not known here".to_owned()));
        }
        if CHANGES_WEIGHTS.iter().any(|kind| initial.starts_with(kind)) {
            let why = format!(
                "init_lora_weights '{initial}' has changed the weights of the model: save the adapter with \
                path_initial_model_for_weight_conversion"
            );
            return Err(refused(why));
        }
        if fields.init_weights == "mini" {
            return Err(refused("MiSS with init_weights 'mini' is not merged here".to_owned()));
        }
        Ok(PeftConfig { alpha: fields.lora_alpha, is_rank_stabilised: fields.use_rslora })
    }

    /// The factor of a LoRA of that rank, where alpha is known.
    pub(super) fn scale(self, rank: usize) -> Option<f32> {
        let rank = rank as f64;
        self.alpha.map(|alpha| (alpha / if self.is_rank_stabilised { rank.sqrt() } else { rank }) as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpha_is_divided_by_the_rank_or_its_root() {
        let scale = |text| PeftConfig::parse(text).unwrap().scale(16);
        assert_eq!(scale(r#"{"peft_type": "LORA", "lora_alpha": 32, "r": 16, "init_lora_weights": true}"#), Some(2.0));
        assert_eq!(scale(r#"{"peft_type": "LORA", "lora_alpha": 32, "use_rslora": true}"#), Some(8.0));
        assert_eq!(scale(r#"{"peft_type": "MISS", "r": 64, "init_weights": true, "lora_alpha": null}"#), None);
    }

    #[test]
    fn unsupported_adapters_are_refused_by_name() {
        for (text, says) in [
            (r#"{"peft_type": "ADALORA"}"#, "ADALORA"),
            (r#"{"peft_type": "LORA", "use_dora": true}"#, "DoRA"),
            (r#"{"peft_type": "LORA", "fan_in_fan_out": true}"#, "fan_in_fan_out"),
            (r#"{"peft_type": "LORA", "alpha_pattern": {"key": 3}}"#, "alpha_pattern"),
            (r#"{"peft_type": "LORA", "init_lora_weights": "pissa_niter_4"}"#, "pissa_niter_4"),
            (r#"{"peft_type": "MISS", "init_weights": "mini"}"#, "mini"),
            ("{", "EOF"),
        ] {
            let error = PeftConfig::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
