//! Flags that say how text is generated; what a flag leaves open, the verb decides.

use std::num::NonZeroUsize;
use wgoose_session::GenerateOptions;

/// How text is generated.
#[derive(clap::Args)]
pub(crate) struct SamplingFlags {
    /// Most tokens to generate [default: 128; an answer of a chat: 2048].
    #[arg(long)]
    max_tokens: Option<usize>,
    /// 0 is greedy [default: 1].
    #[arg(long)]
    temperature: Option<f32>,
    /// Smallest set of tokens whose probabilities reach this sum [default: 0.5; chat: 0.3].
    #[arg(long)]
    top_p: Option<f32>,
    /// Only the k likeliest tokens.
    #[arg(long)]
    top_k: Option<NonZeroUsize>,
    /// Of these tokens, those nearest to the expected information until their probabilities reach this sum.
    #[arg(long, value_name = "SUM")]
    typical: Option<f32>,
    /// Subtracted from the logit of every token chosen before [default: 0; chat: 0.5].
    #[arg(long, value_name = "LOGITS")]
    presence_penalty: Option<f32>,
    /// Subtracted as often as it was chosen [default: 0; chat: 0.5].
    #[arg(long, value_name = "LOGITS")]
    frequency_penalty: Option<f32>,
    /// What becomes of that number with every token [default: 1; chat: 0.996].
    #[arg(long, value_name = "FACTOR")]
    penalty_decay: Option<f32>,
    /// Added to the logit of a token, -inf never chooses it: 261=-inf. Can be given many times.
    #[arg(long, value_name = "TOKEN=BIAS", value_parser = bias)]
    logit_bias: Vec<(u32, f32)>,
    /// End before this text. Can be given many times.
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// End at this token, as at end-of-text (0). Can be given many times.
    #[arg(long, value_name = "TOKEN")]
    stop_token: Vec<u32>,
    /// Same seed, plan and device: same text [default: 0].
    #[arg(long)]
    seed: Option<u64>,
}

impl SamplingFlags {
    /// The options, given those of the verb.
    pub(crate) fn options(&self, mut options: GenerateOptions) -> GenerateOptions {
        fn set<T>(place: &mut T, flag: Option<T>) {
            if let Some(value) = flag {
                *place = value;
            }
        }
        set(&mut options.max_tokens, self.max_tokens);
        let how = &mut options.sampling;
        set(&mut how.temperature, self.temperature);
        set(&mut how.top_p, self.top_p);
        set(&mut how.top_k, self.top_k.map(Some));
        set(&mut how.typical, self.typical);
        set(&mut how.penalties.presence, self.presence_penalty);
        set(&mut how.penalties.frequency, self.frequency_penalty);
        set(&mut how.penalties.decay, self.penalty_decay);
        set(&mut how.seed, self.seed);
        how.bias.extend_from_slice(&self.logit_bias);
        options.stop_strings.extend_from_slice(&self.stop);
        options.stop_tokens.extend_from_slice(&self.stop_token);
        options
    }
}

fn bias(text: &str) -> Result<(u32, f32), String> {
    let wants = || "expected TOKEN=BIAS, such as 261=-inf or 11=0.5".to_owned();
    let (token, bias) = text.split_once('=').ok_or_else(wants)?;
    Ok((token.parse().map_err(|_| wants())?, bias.parse().map_err(|_| wants())?))
}
