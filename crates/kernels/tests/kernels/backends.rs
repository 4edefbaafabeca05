//! Metal and DirectX: naga translates every kernel for them, but for those that need what they have not. Browsers: every kernel
//! is valid with what WebGPU has.

use crate::instances::{wide, with_ranks};
use naga::back::{hlsl, msl};
use naga::valid::{Capabilities, ModuleInfo, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator};
use naga::{Expression, Module, Statement, TypeInner};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use wgoose_graph::{Format, LoraRanks};
use wgoose_kernels::probes::{self, Probe};
use wgoose_kernels::{Catalogue, Feature, Kernel, KernelError, Limits, repack, sampling};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Language {
    Msl,
    Hlsl,
    /// WGSL as browsers take it.
    Wgsl,
}

/// Why no device with a language has a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Absent {
    /// Metal's matrices are 8 x 8.
    MatricesAreSmaller,
    /// naga writes none in HLSL, and wgpu lists none on DirectX 12.
    NoMatrices,
    /// WebGPU has no such extension.
    NotInWebGpu,
}

/// Features that no device with a language has; all others that a kernel needs must be translated.
const ABSENT: [(Language, Feature, Absent); 6] = [
    (Language::Msl, Feature::CooperativeMatrix, Absent::MatricesAreSmaller),
    (Language::Hlsl, Feature::CooperativeMatrix, Absent::NoMatrices),
    (Language::Hlsl, Feature::CooperativeMatrix8, Absent::NoMatrices),
    (Language::Wgsl, Feature::CooperativeMatrix, Absent::NotInWebGpu),
    (Language::Wgsl, Feature::CooperativeMatrix8, Absent::NotInWebGpu),
    (Language::Wgsl, Feature::CoherentMemory, Absent::NotInWebGpu),
];

fn limits() -> Limits {
    let mut limits = wide();
    limits.features.extend(Feature::ALL);
    limits
}

/// A kernel in a language; `None` if it needs what devices with that language have not.
fn translate(kernel: &Kernel, language: Language) -> Option<Result<String, String>> {
    if ABSENT.iter().any(|(of, feature, _)| *of == language && kernel.facts.features.contains(feature)) {
        return None;
    }
    let (module, info) = match kernel.module() {
        Ok(valid) => valid,
        Err(e) => return Some(Err(e.to_string())),
    };
    // What a back end has not, it says with a panic as often as with an error.
    let written = catch_unwind(AssertUnwindSafe(|| match language {
        Language::Msl => metal(&module, &info),
        Language::Hlsl => directx(&module, &info),
        Language::Wgsl => browser(kernel, &module),
    }));
    Some(written.unwrap_or_else(|_| Err("naga panics".to_owned())))
}

fn metal(module: &Module, info: &ModuleInfo) -> Result<String, String> {
    matrices_are_at_scalars(module)?;
    let options = msl::Options { lang_version: (3, 0), ..msl::Options::default() };
    let written = msl::write_string(module, info, &options, &msl::PipelineOptions::default());
    let (text, entries) = written.map_err(|e| e.to_string())?;
    entries.entry_point_names.into_iter().find_map(Result::err).map_or(Ok(text), |e| Err(e.to_string()))
}

fn directx(module: &Module, info: &ModuleInfo) -> Result<String, String> {
    // Shader model 6.6 has all that kernels ask for: 16-bit types, packed dot products.
    let options = hlsl::Options { shader_model: hlsl::ShaderModel::V6_6, ..hlsl::Options::default() };
    let (pipeline, mut text) = (hlsl::PipelineOptions::default(), String::new());
    let written = hlsl::Writer::new(&mut text, &options, &pipeline).write(module, info, None);
    let entries = written.map_err(|e| e.to_string())?.entry_point_names;
    entries.into_iter().find_map(Result::err).map_or(Ok(text), |e| Err(e.to_string()))
}

/// Valid with the optional features of WebGPU that the kernel says it needs, and no other of naga's. naga does not ask for the
/// line `enable subgroups;`, does not know it, and analyses no uniformity: browsers do.
fn browser(kernel: &Kernel, module: &Module) -> Result<String, String> {
    let optional = [(Feature::Subgroups, Capabilities::SUBGROUP), (Feature::F16, Capabilities::SHADER_FLOAT16)];
    let needed = optional.into_iter().filter(|(feature, _)| kernel.facts.features.contains(feature));
    // unpack2x16float is there without any.
    let core = Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    let capabilities = needed.fold(core, |all, (_, capability)| all | capability);
    let mut validator = Validator::new(ValidationFlags::all(), capabilities);
    validator.subgroup_stages(ShaderStages::COMPUTE).subgroup_operations(SubgroupOperationSet::all());
    validator.validate(module).map_err(|e| e.emit_to_string(&kernel.wgsl))?;
    Ok(kernel.wgsl.clone())
}

/// Metal loads and stores matrices through pointers to their components, to which naga does not convert one to vectors: it
/// writes text that Metal's compiler refuses.
fn matrices_are_at_scalars(module: &Module) -> Result<(), String> {
    let functions = module.functions.iter().map(|(_, f)| f).chain(module.entry_points.iter().map(|e| &e.function));
    for function in functions {
        let is_scalar = |pointer: naga::Handle<Expression>| -> bool {
            let mut at = pointer;
            // An element of an array that is a variable.
            while let Expression::Access { base, .. } | Expression::AccessIndex { base, .. } = function.expressions[at]
            {
                at = base;
            }
            let Expression::GlobalVariable(variable) = function.expressions[at] else { return false };
            let TypeInner::Array { base, .. } = module.types[module.global_variables[variable].ty].inner else {
                return false;
            };
            matches!(module.types[base].inner, TypeInner::Scalar(_))
        };
        let mut pointers: Vec<_> = function
            .expressions
            .iter()
            .filter_map(
                |(_, e)| if let Expression::CooperativeLoad { data, .. } = e { Some(data.pointer) } else { None },
            )
            .collect();
        stores(&function.body, &mut pointers);
        if !pointers.into_iter().all(is_scalar) {
            return Err("it loads or stores a matrix in an array of vectors".to_owned());
        }
    }
    Ok(())
}

fn stores(block: &naga::Block, pointers: &mut Vec<naga::Handle<Expression>>) {
    for statement in block.iter() {
        match statement {
            Statement::CooperativeStore { data, .. } => pointers.push(data.pointer),
            Statement::Block(inner) => stores(inner, pointers),
            Statement::If { accept, reject, .. } => [accept, reject].into_iter().for_each(|b| stores(b, pointers)),
            Statement::Switch { cases, .. } => cases.iter().for_each(|case| stores(&case.body, pointers)),
            Statement::Loop { body, continuing, .. } => {
                [body, continuing].into_iter().for_each(|b| stores(b, pointers));
            }
            _ => {}
        }
    }
}

/// The kernel of each variant at its default configuration, or the nearest, at the first instance of an op that takes it, for
/// all formats that the operands of instances have, the state too.
fn variants(catalogue: &Catalogue, limits: &Limits) -> Vec<(String, Kernel)> {
    let of_format = |format: Format| {
        let mut kernels = BTreeMap::new();
        // Ranks that suit every variant.
        let ranks = LoraRanks { decay: 32, iclr: 32, value: 32, gate: 64 };
        for instance in with_ranks(ranks, format, &[16, 1]) {
            for variant in catalogue.variants(instance.op.name()) {
                let formats: Vec<Format> = instance.inputs.iter().filter_map(|input| input.format).collect();
                let key = (instance.op.name(), variant.path().to_string(), formats, instance.state_format().name());
                if kernels.contains_key(&key) {
                    continue;
                }
                let made =
                    variant.configs().iter().find_map(|config| match Kernel::new(variant, &instance, config, limits) {
                        Ok(kernel) => Some(kernel),
                        Err(KernelError::Refused(_)) => None,
                        Err(e) => panic!("{}: {e}", variant.id()),
                    });
                kernels.extend(made.map(|kernel| (key, kernel)));
            }
        }
        kernels
    };
    let kernels: BTreeMap<_, _> = Format::all().collect::<Vec<_>>().into_par_iter().flat_map_iter(of_format).collect();
    let named = |((op, path, formats, state), kernel)| (format!("{path} as {op} {formats:?} state {state}"), kernel);
    kernels.into_iter().map(named).collect()
}

/// Kernels that are no op's.
fn of_device(catalogue: &Catalogue, limits: &Limits) -> Vec<(String, Kernel)> {
    let repacked = Format::all().filter(|format| format.is_repacked());
    let repack = repacked.map(|format| repack::kernel(format, limits, catalogue).unwrap());
    let sampling =
        [sampling::scores(2, 4096, limits, catalogue).unwrap(), sampling::sample(2, limits, catalogue).unwrap()];
    let probes = Probe::ALL.map(|probe| probes::kernel(probe, limits, catalogue).unwrap());
    repack.chain(sampling).chain(probes).map(|kernel| (kernel.label.clone(), kernel)).collect()
}

#[test]
fn every_kernel_is_translated() {
    let (catalogue, limits) = (Catalogue::embedded(), limits());
    let mut kernels = variants(&catalogue, &limits);
    let seen: BTreeSet<&str> = kernels.iter().filter_map(|(name, _)| name.split(' ').next()).collect();
    let all = wgoose_kernels::ops::ALL.iter().flat_map(|op| catalogue.variants(op.name)).map(|v| v.path().to_string());
    let unseen: BTreeSet<String> = all.filter(|path| !seen.contains(path.as_str())).collect();
    assert!(unseen.is_empty(), "no instance takes {unseen:?}");
    kernels.extend(of_device(&catalogue, &limits));
    for language in [Language::Msl, Language::Hlsl, Language::Wgsl] {
        let written: Vec<_> = kernels.par_iter().map(|(name, kernel)| (name, translate(kernel, language))).collect();
        let failures: BTreeSet<String> = written
            .iter()
            .filter_map(|(name, result)| Some(format!("{name}: {}", result.as_ref()?.as_ref().err()?)))
            .collect();
        let left_out = written.iter().filter(|(_, result)| result.is_none()).count();
        println!("{language:?}: {} kernels, {left_out} left out", written.len());
        assert!(failures.is_empty(), "{language:?}:\n{}", failures.into_iter().collect::<Vec<_>>().join("\n"));
    }
}
