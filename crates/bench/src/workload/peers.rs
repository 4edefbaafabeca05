//! Figures of other projects for the same work, where they are known, each with its device and its source.
//!
//! They are of the published sizes with the named formats. A figure of another device compares the projects on that
//! device, and says nothing about this one.

use super::{DOCUMENT, FIELDS, Job};
use serde::Serialize;
use std::borrow::Cow;

const H200: &str = "NVIDIA H200";
const OURS: &str = "measured by this project with synthetic weights, November 2026";
const LAPTOP: &str = "an Apple laptop's GPU";
const ORIGIN: &str = "the plan that this project answers; its lengths of fields are not known";
const ALBATROSS: &str = "Albatross faster3a (July 2026)";
const CUDA: &str = "llama.cpp CUDA (October 2026)";
const VULKAN: &str = "llama.cpp Vulkan (October 2026)";

/// A figure of another project.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reference {
    /// The project.
    pub who: Cow<'static, str>,
    /// Tokens a second.
    pub tokens_per_s: Option<f64>,
    /// Milliseconds.
    pub ms: Option<f64>,
    /// Where it was measured.
    pub device: Cow<'static, str>,
    /// By whom.
    pub source: Cow<'static, str>,
    /// Milliseconds of each run, where its program was run beside this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples_ms: Vec<f64>,
}

/// Prompts of 32, 128, 512 and 2,048 tokens, tokens a second.
const PROMPTS: [(&str, &str, &str, [f64; 4]); 7] = [
    ("2.9B", "Q4_K_M", CUDA, [2829.0, 5805.0, 8471.0, 9610.0]),
    ("2.9B", "Q4_K_M", VULKAN, [1458.0, 3594.0, 5238.0, 5158.0]),
    ("2.9B", "F16", ALBATROSS, [6015.0, 15669.0, 24677.0, 25816.0]),
    ("2.9B", "F16", CUDA, [3077.0, 7575.0, 11352.0, 12088.0]),
    ("2.9B", "F16", VULKAN, [1365.0, 4334.0, 5451.0, 5380.0]),
    ("1.5B", "F16", ALBATROSS, [9098.0, 24221.0, 36209.0, 37401.0]),
    ("1.5B", "F16", CUDA, [4349.0, 11267.0, 16758.0, 17966.0]),
];

/// A size, formats and a project; sequences that are continued together, and tokens a second of all of them.
type Decodes = (&'static str, &'static str, &'static str, &'static [(usize, f64)]);

const DECODES: [Decodes; 8] = [
    ("2.9B", "Q4_K_M", CUDA, &[(1, 193.0), (32, 2791.0)]),
    ("2.9B", "Q4_K_M", VULKAN, &[(1, 162.0), (32, 1341.0)]),
    ("2.9B", "F16", ALBATROSS, &[(1, 416.0), (8, 2003.0), (32, 6953.0), (128, 22275.0)]),
    ("2.9B", "F16", CUDA, &[(1, 172.0), (8, 858.0), (32, 3016.0)]),
    ("2.9B", "F16", VULKAN, &[(1, 157.0)]),
    ("1.5B", "F16", ALBATROSS, &[(1, 685.0), (8, 3103.0), (32, 10740.0), (128, 35215.0)]),
    ("1.5B", "F16", CUDA, &[(1, 271.0), (8, 1348.0), (32, 4494.0)]),
    ("1.5B", "F16", VULKAN, &[(1, 224.0)]),
];

/// Prompts in one call: sequences, tokens of each, tokens a second.
const PACKED: [(&str, &str, &str, usize, usize, f64); 2] =
    [("1.5B", "F16", ALBATROSS, 32, 64, 143_905.0), ("1.5B", "F16", CUDA, 16, 64, 22_130.0)];

/// What is known for a job of a model of that published size with those formats.
pub fn references(size: Option<&str>, formats: Option<&str>, job: Job) -> Vec<Reference> {
    let (Some(size), Some(formats)) = (size, formats) else { return Vec::new() };
    let is = |of: &str, with: &str| of == size && with == formats;
    let known = |who: &'static str, tokens_per_s, ms, device: &'static str, source: &'static str| {
        let (who, device, source) = (who.into(), device.into(), source.into());
        Reference { who, tokens_per_s, ms, device, source, samples_ms: Vec::new() }
    };
    let rate = |who, rate| known(who, Some(rate), None, H200, OURS);
    let ms = |who, ms, device, source| known(who, None, Some(ms), device, source);
    match job {
        Job::Prompt(tokens) => {
            let Some(place) = [32, 128, 512, 2048].iter().position(|n| *n == tokens) else { return Vec::new() };
            let known = PROMPTS.iter().filter(|(of, with, ..)| is(of, with));
            known.map(|(_, _, who, rates)| rate(who, rates[place])).collect()
        }
        Job::Decode(sequences, _) => {
            let known = DECODES.iter().filter(|(of, with, ..)| is(of, with));
            let rates = known.flat_map(|(_, _, who, rates)| rates.iter().map(move |(n, rate)| (*who, *n, *rate)));
            rates.filter(|(_, n, _)| *n == sequences).map(|(who, _, of)| rate(who, of)).collect()
        }
        Job::Packed(sequences, tokens) => {
            let known =
                PACKED.iter().filter(|(of, with, _, n, each, _)| is(of, with) && (*n, *each) == (sequences, tokens));
            known.map(|(_, _, who, _, _, of)| rate(who, *of)).collect()
        }
        Job::Document(DOCUMENT) if is("2.9B", "Q4_K_M") => vec![
            ms("llama.cpp", 296.0, LAPTOP, ORIGIN),
            ms("web-rwkv", 682.0, LAPTOP, ORIGIN),
            ms("goal", 300.0, LAPTOP, ORIGIN),
        ],
        Job::FieldsTogether if is("2.9B", "Q4_K_M") && FIELDS.len() == 6 => vec![
            ms("llama.cpp", 563.0, LAPTOP, ORIGIN),
            ms("web-rwkv", 327.0, LAPTOP, ORIGIN),
            ms("goal", 100.0, LAPTOP, ORIGIN),
        ],
        Job::Cold { tokens: 32, kept } if is("2.9B", "Q4_K_M") => {
            vec![ms(VULKAN, if kept { 607.0 } else { 2178.0 }, H200, OURS)]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_compared_on_equal_work_only() {
        let known = |size, formats, job| references(Some(size), Some(formats), job).len();
        assert_eq!(known("2.9B", "Q4_K_M", Job::Prompt(512)), 2);
        assert_eq!(known("2.9B", "F16", Job::Decode(32, 64)), 2);
        assert_eq!(known("2.9B", "Q4_K_M", Job::Document(212)), 3);
        assert_eq!(known("2.9B", "F16", Job::Document(212)), 0);
        assert_eq!(known("2.9B", "Q4_K_M", Job::Document(213)), 0);
        assert_eq!(known("2.9B", "Q4_K_M", Job::Prompt(511)), 0);
        assert_eq!(known("0.1B", "Q4_K_M", Job::Prompt(512)), 0);
        assert_eq!(known("1.5B", "F16", Job::Packed(16, 64)), 1);
        assert_eq!(known("1.5B", "F16", Job::Packed(64, 16)), 0);
        assert!(references(None, Some("F16"), Job::Prompt(32)).is_empty());
    }

    #[test]
    fn every_rate_of_a_peer_is_above_1_token_per_second() {
        let rates = PROMPTS.iter().flat_map(|p| p.3).chain(DECODES.iter().flat_map(|d| d.3.iter().map(|r| r.1)));
        assert!(rates.chain(PACKED.iter().map(|p| p.5)).all(|rate| rate > 1.0));
    }
}
