//! Probes: the kernels that measure what a device can do at most. They compute nothing that a model needs.
//!
//! A dispatch binds `params` ([`Params`]), `x`, which is read, and `y`, which is written; how many workgroups there are is
//! for the caller to choose.

use crate::{Catalogue, Kernel, KernelError, Limits};

/// The uniform block of a dispatch (must match `kernels-wgsl/device/probes/params.wgsl`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Params {
    /// How often the work is repeated within the dispatch.
    pub rounds: u32,
    /// Elements of 16 bytes in x, for [`Probe::Read`] and [`Probe::Copy`]: a multiple of 1024.
    pub elements: u32,
    /// Workgroups that wait for one another, for [`Probe::GridBarrier`].
    pub workgroups: u32,
    /// Spins until a wait times out, for [`Probe::GridBarrier`].
    pub spins: u32,
}

impl Params {
    /// As the kernels read them.
    pub fn words(&self) -> [u32; 4] {
        [self.rounds, self.elements, self.workgroups, self.spins]
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Probe {
    /// Reading x.
    Read,
    /// Copying x to y.
    Copy,
    /// f32 multiply-adds.
    FmaF32,
    /// f16 multiply-adds in vectors of two.
    FmaF16x2,
    /// f16 multiply-adds in vectors of four.
    FmaF16x4,
    /// Dot products of four int8 pairs.
    DotInt8,
    /// Products of f16 matrices with f32 sums, on cooperative matrices of 16 x 16.
    MatrixF16,
    /// Next to nothing.
    Tick,
    /// Barriers among all workgroups.
    GridBarrier,
}

impl Probe {
    /// All of them.
    pub const ALL: [Probe; 9] = [
        Probe::Read,
        Probe::Copy,
        Probe::FmaF32,
        Probe::FmaF16x2,
        Probe::FmaF16x4,
        Probe::DotInt8,
        Probe::MatrixF16,
        Probe::Tick,
        Probe::GridBarrier,
    ];

    /// Arithmetic operations of a workgroup in a round, a multiply-add being two; 0 where that is not what is measured.
    pub fn operations(self) -> u64 {
        const THREADS: u64 = 256;
        const LINKS: u64 = 8 * 4;
        match self {
            Probe::FmaF32 | Probe::FmaF16x4 => THREADS * LINKS * 4 * 2,
            Probe::FmaF16x2 => THREADS * LINKS * 2 * 2,
            Probe::DotInt8 => THREADS * LINKS * 4 * 2,
            Probe::MatrixF16 => 4 * 16 * 16 * 16 * 2,
            Probe::Read | Probe::Copy | Probe::Tick | Probe::GridBarrier => 0,
        }
    }

    fn path(self) -> &'static str {
        match self {
            Probe::Read => "device/probes/read",
            Probe::Copy => "device/probes/copy",
            Probe::FmaF32 => "device/probes/fma_f32",
            Probe::FmaF16x2 | Probe::FmaF16x4 => "device/probes/fma_f16",
            Probe::DotInt8 => "device/probes/dot_int8",
            Probe::MatrixF16 => "device/probes/matrix_f16",
            Probe::Tick => "device/probes/tick",
            Probe::GridBarrier => "device/probes/grid_barrier",
        }
    }

    fn chosen(self, limits: &Limits) -> Option<(&'static str, String)> {
        match self {
            Probe::FmaF16x2 => Some(("T", "vec2<f16>".to_owned())),
            Probe::FmaF16x4 => Some(("T", "vec4<f16>".to_owned())),
            Probe::MatrixF16 => Some(("WG", limits.min_subgroup.to_string())),
            _ => None,
        }
    }
}

/// The kernel of a probe. Its workgroups are 1: the caller decides how many there are.
///
/// # Errors
/// The device cannot run it, or the kernel's file is wrong.
pub fn kernel(probe: Probe, limits: &Limits, catalogue: &Catalogue) -> Result<Kernel, KernelError> {
    let chosen = probe.chosen(limits);
    let chosen: Vec<(&str, &str)> = chosen.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Kernel::of_device(catalogue.library(), probe.path(), &chosen, limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Feature, Refusal};
    use std::collections::BTreeSet;

    #[test]
    fn every_probe_is_valid_and_binds_the_promised_operands() {
        let all = BTreeSet::from([Feature::Subgroups, Feature::F16, Feature::CooperativeMatrix]);
        let limits = Limits { features: all, min_subgroup: 32, ..Limits::webgpu() };
        for probe in Probe::ALL {
            let kernel = kernel(probe, &limits, &Catalogue::embedded()).unwrap();
            for binding in &kernel.facts.bindings {
                let access = match binding.name.as_str() {
                    "params" => Access::Uniform,
                    "x" => Access::Read,
                    "y" => Access::ReadWrite,
                    other => panic!("{probe:?} binds {other}"),
                };
                assert_eq!(binding.access, access, "{probe:?}");
            }
            let names: Vec<&str> = kernel.facts.bindings.iter().map(|b| b.name.as_str()).collect();
            assert!(names.contains(&"params") && names.contains(&"y"), "{probe:?} binds {names:?}");
            let threads = kernel.facts.workgroup_size[0];
            let per_workgroup = u64::from(threads);
            match probe {
                Probe::MatrixF16 => assert_eq!(threads, 32),
                _ => assert!(probe.operations().is_multiple_of(per_workgroup), "{probe:?}"),
            }
        }
    }

    #[test]
    fn a_missing_feature_is_named() {
        let refusal = |probe| kernel(probe, &Limits::webgpu(), &Catalogue::embedded()).map(|_| ()).unwrap_err();
        assert_eq!(refusal(Probe::FmaF16x2), KernelError::Refused(Refusal::Feature(Feature::F16)));
        let mut limits = Limits::webgpu();
        limits.features.insert(Feature::F16);
        let matrix = kernel(Probe::MatrixF16, &limits, &Catalogue::embedded()).map(|_| ());
        assert_eq!(matrix, Err(KernelError::Refused(Refusal::Feature(Feature::CooperativeMatrix))));
    }
}
