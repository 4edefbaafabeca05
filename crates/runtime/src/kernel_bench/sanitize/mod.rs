//! Kernels under the sanitizer: each runs on the CPU with the operands of a random case, in several orders, without a
//! device. A finding has the file and the line that a kernel's author wrote.

mod cases;
mod operands;

pub use cases::{Coverage, SanitizedCase, cases, widest_limits};

use crate::kernel_bench::Case;
use std::fmt;
use wgoose_kernels::{Kernel, Limits, Variant, dispatch_size};
use wgoose_sanitizer::{Access, Dispatch, Finding, Order, Report, SanitizerError, Shader};

/// Variables of the workgroup that stand for the memory of others, as `pipelines/spirv/reinterpret.rs` has them.
const ALIASES: [&str; 2] = ["_as_f16", "_as_f32"];

/// Why a kernel could not be run by the sanitizer.
#[derive(Debug, thiserror::Error)]
pub enum SanitizeError {
    /// Something that the sanitizer does not know, or too many steps.
    #[error("{kernel}: {error}")]
    Refused {
        /// The kernel.
        kernel: String,
        /// Why.
        error: SanitizerError,
    },
    /// A binding that no case has data for.
    #[error("{kernel} binds {binding}, which no case has")]
    NoData {
        /// The kernel.
        kernel: String,
        /// The binding's name.
        binding: String,
    },
    /// More workgroups than a dispatch has.
    #[error("{kernel} has {workgroups} workgroups, more than one dispatch")]
    TooLarge {
        /// The kernel.
        kernel: String,
        /// Its workgroups.
        workgroups: u64,
    },
}

/// How kernels are run.
#[derive(Clone, Debug)]
pub struct SanitizeOptions {
    /// Invocations of a subgroup.
    pub subgroup_size: u32,
    /// The orders.
    pub orders: Vec<Order>,
    /// Steps after which a kernel counts as one that does not end.
    pub max_steps: u64,
}

impl Default for SanitizeOptions {
    /// Forwards and backwards, in subgroups of 32.
    fn default() -> Self {
        SanitizeOptions { subgroup_size: 32, orders: vec![Order::Forward, Order::Backward], max_steps: 20_000_000_000 }
    }
}

/// A finding with the lines of the files that the kernel is made of.
#[derive(Clone, Debug)]
pub struct KernelFinding {
    /// What is wrong; its lines are those of the final text.
    pub finding: Finding,
    /// Where the first access is: `FILE.wgsl:LINE`.
    pub first: String,
    /// Where the second one is.
    pub second: Option<String>,
}

impl fmt::Display for KernelFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { kind, variable, detail, is_value_dropped, allowed, .. } = &self.finding;
        write!(f, "{kind}")?;
        if let Some(variable) = variable {
            write!(f, " on {variable}")?;
        }
        write!(f, " ({detail}")?;
        match is_value_dropped {
            Some(true) => f.write_str("; the value read is dropped")?,
            Some(false) => f.write_str("; the value read reaches a result")?,
            None => {}
        }
        write!(f, ")\n    {}: {}", self.first, who(&self.finding.first))?;
        if let (Some(place), Some(access)) = (&self.second, &self.finding.second) {
            write!(f, "\n    {place}: {}", who(access))?;
        }
        match allowed {
            Some(reason) => write!(f, "\n    allowed: {reason}"),
            None => Ok(()),
        }
    }
}

fn who(access: &Access) -> String {
    let Access { kind, workgroup, invocation, text, .. } = access;
    format!("{kind}, workgroup {workgroup} invocation {invocation}: {text}")
}

/// Runs a kernel with the operands of a case.
///
/// # Errors
/// The sanitizer does not know something that the kernel does, or it does not end.
pub fn sanitize(
    kernel: &Kernel,
    case: &Case,
    limits: &Limits,
    options: &SanitizeOptions,
) -> Result<Vec<KernelFinding>, SanitizeError> {
    let refused = |error| SanitizeError::Refused { kernel: kernel.label.clone(), error };
    let shader = shader(kernel).map_err(refused)?;
    let dispatch = dispatch(kernel, case, limits, options)?;
    let report = shader.check(&dispatch, &options.orders).map_err(refused)?;
    Ok(findings(kernel, report))
}

/// Steps of a kernel that is looked at before it is run on a device: a second or two.
const MOST_STEPS: u64 = 300_000_000;

/// The first fault that no comment allows, of the kernel nearest to a variant's default; `None` also where the
/// sanitizer does not know something that it does, which is logged.
pub fn first_fault(op: &str, variant: &Variant) -> Option<KernelFinding> {
    let options = SanitizeOptions { max_steps: MOST_STEPS, ..SanitizeOptions::default() };
    let limits = widest_limits(options.subgroup_size);
    // A text that is wrong says so where the kernel is made.
    for case in cases(op, variant, &limits, Coverage::Default).unwrap_or_default() {
        match sanitize(&case.kernel, &case.case, &limits, &options) {
            Ok(found) => {
                if let Some(fault) = found.into_iter().find(|found| found.finding.allowed.is_none()) {
                    return Some(fault);
                }
            }
            Err(error) => tracing::warn!("not sanitized: {error}"),
        }
    }
    None
}

/// A kernel's text as the sanitizer reads it.
///
/// # Errors
/// As naga has it; the text was validated before.
pub fn shader(kernel: &Kernel) -> Result<Shader, SanitizerError> {
    Shader::parse_with_aliases(&kernel.wgsl, &ALIASES)
}

/// The dispatch of a kernel with the operands of a case.
///
/// # Errors
/// The kernel binds what no case has, or has too many workgroups.
pub fn dispatch(
    kernel: &Kernel,
    case: &Case,
    limits: &Limits,
    options: &SanitizeOptions,
) -> Result<Dispatch, SanitizeError> {
    let too_large = || SanitizeError::TooLarge { kernel: kernel.label.clone(), workgroups: kernel.workgroups };
    let grid = dispatch_size(kernel.workgroups, limits).ok_or_else(too_large)?;
    let mut dispatch = Dispatch::new(grid).with_subgroups_of(options.subgroup_size);
    dispatch.max_steps = options.max_steps;
    for binding in &kernel.facts.bindings {
        let no_data = || SanitizeError::NoData { kernel: kernel.label.clone(), binding: binding.name.clone() };
        dispatch = dispatch.bind(binding.number, operands::buffer(binding, kernel, case).ok_or_else(no_data)?);
    }
    Ok(dispatch)
}

/// The findings of a report with their places in files.
pub fn findings(kernel: &Kernel, report: Report) -> Vec<KernelFinding> {
    let place = |access: &Access| match kernel.origins.of(access.line) {
        Some((file, line)) => format!("{file}.wgsl:{line}"),
        None => format!("{}:{}", kernel.label, access.line),
    };
    let located = |finding: Finding| KernelFinding {
        first: place(&finding.first),
        second: finding.second.as_ref().map(place),
        finding,
    };
    report.findings.into_iter().map(located).collect()
}
