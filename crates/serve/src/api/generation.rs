//! The fields of a request that control generation and streaming.

use super::fields::Fields;
use super::logprobs;
use super::refused::Refused;
use super::structure::Structure;
use super::texts::Strings;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use wgoose_session::GenerateOptions;
use wgoose_session::sampling::{Penalties, SamplerOptions};

/// Largest `n`.
const MOST_TEXTS: usize = 128;

/// Fields of OpenAI's interface that are not supported, with their neutral values.
const UNSUPPORTED: [(&str, &[&str]); 4] =
    [("suffix", &["\"\""]), ("functions", &["[]"]), ("modalities", &["[\"text\"]"]), ("frequency_penalty_decay", &[])];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
    /// Padding of encrypted streams.
    #[serde(default, rename = "include_obfuscation")]
    _include_obfuscation: bool,
}

/// How to generate and send texts.
pub(super) struct Generation {
    pub(super) options: GenerateOptions,
    /// What the texts have to be.
    pub(super) structure: Option<Structure>,
    /// Number of texts for each prompt.
    pub(super) count: usize,
    pub(super) is_stream: bool,
    /// Whether a stream ends with the usage.
    pub(super) has_usage: bool,
    pub(super) priority: i32,
}

impl Generation {
    /// Takes the fields; `usual` is the default of `max_tokens`, `most` its maximum.
    ///
    /// # Errors
    /// A field makes no sense or is not supported.
    pub(super) fn take(fields: &mut Fields, usual: usize, most: usize) -> Result<Self, Refused> {
        // There is one model, whatever its name in the request.
        let _: Option<String> = fields.take("model")?;
        fields.neutral(&UNSUPPORTED)?;
        let limit: Option<f64> = fields.take_either("max_tokens", "max_completion_tokens")?;
        let max_tokens = limit.map(|limit| tokens_of(limit, most)).transpose()?;
        let count = fields.take("n")?.unwrap_or(1);
        if !(1..=MOST_TEXTS).contains(&count) {
            return Err(Refused::field("n", format_args!("{count} is not from 1 to {MOST_TEXTS}")));
        }
        let best_of: Option<usize> = fields.take("best_of")?;
        if best_of.is_some_and(|best_of| best_of != count) {
            return Err(Refused::field("best_of", "it cannot be honoured: leave it out"));
        }
        let sampling = sampling(fields)?;
        let stop = fields.take::<Strings>("stop")?.map(Strings::list).unwrap_or_default();
        let mut options = GenerateOptions { sampling, stop_strings: stop, ..GenerateOptions::default() };
        options.max_tokens = max_tokens.unwrap_or(usual.min(most));
        options.stop_tokens.extend(fields.take::<Vec<u32>>("stop_token_ids")?.unwrap_or_default());
        options.logprobs = logprobs::take(fields)?;
        let structure = Structure::take(fields)?;
        let is_stream = fields.take("stream")?.unwrap_or(false);
        let stream_options: Option<StreamOptions> = fields.take("stream_options")?;
        let priority = fields.take("priority")?.unwrap_or(0);
        let has_usage = stream_options.is_some_and(|options| options.include_usage);
        Ok(Generation { options, structure, count, is_stream, has_usage, priority })
    }

    /// The options of the text with that index, with a separate seed.
    pub(super) fn of_text(&self, index: usize) -> GenerateOptions {
        let mut options = self.options.clone();
        options.sampling.seed = options.sampling.seed.wrapping_add(index as u64);
        options
    }
}

/// `max_tokens`. JSON of some languages has only floats; in llama.cpp's interface -1 means no limit.
fn tokens_of(limit: f64, most: usize) -> Result<usize, Refused> {
    match limit {
        -1.0 => Ok(most),
        _ if limit < 0.0 || limit.fract() != 0.0 => {
            Err(Refused::field("max_tokens", format_args!("{limit} is no number of tokens")))
        }
        _ if limit > most as f64 => {
            Err(Refused::field("max_tokens", format_args!("{limit} are more than the {most} allowed")))
        }
        _ => Ok(limit as usize),
    }
}

/// Takes the fields of sampling.
pub(super) fn sampling(fields: &mut Fields) -> Result<SamplerOptions, Refused> {
    let usual = SamplerOptions::default();
    let bias = fields.take::<BTreeMap<String, f32>>("logit_bias")?.unwrap_or_default();
    let token = |token: &str| Refused::field("logit_bias", format_args!("'{token}' is no token id"));
    let bias = bias.into_iter().map(|(id, bias)| Ok((id.parse().map_err(|_| token(&id))?, bias)));
    // In vLLM's interface -1 and 0 mean all tokens.
    let top_k = match fields.take::<i64>("top_k")?.unwrap_or(0) {
        -1 | 0 => None,
        k => match usize::try_from(k).ok().and_then(NonZeroUsize::new) {
            Some(k) => Some(k),
            None => return Err(Refused::field("top_k", format_args!("{k} is not a number of tokens"))),
        },
    };
    let penalties = Penalties::default();
    Ok(SamplerOptions {
        temperature: fields.take("temperature")?.unwrap_or(usual.temperature),
        top_p: fields.take("top_p")?.unwrap_or(0.5),
        top_k,
        min_p: fields.take("min_p")?.unwrap_or(usual.min_p),
        typical: fields.take("typical_p")?.unwrap_or(usual.typical),
        penalties: Penalties {
            presence: fields.take("presence_penalty")?.unwrap_or(penalties.presence),
            frequency: fields.take("frequency_penalty")?.unwrap_or(penalties.frequency),
            repetition: fields.take_either("repetition_penalty", "repeat_penalty")?.unwrap_or(penalties.repetition),
            decay: fields.take("penalty_decay")?.unwrap_or(penalties.decay),
        },
        bias: bias.collect::<Result<_, Refused>>()?,
        seed: fields.take::<Value>("seed")?.map(|seed| seed_of(&seed)).transpose()?.unwrap_or_else(random_seed),
    })
}

/// A 64-bit number, signed or unsigned.
fn seed_of(seed: &Value) -> Result<u64, Refused> {
    let number = seed.as_u64().or_else(|| seed.as_i64().map(i64::cast_unsigned));
    number.ok_or_else(|| Refused::field("seed", format_args!("{seed} is no 64-bit number")))
}

/// A random seed.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
