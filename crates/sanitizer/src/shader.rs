//! A shader: parsed once, run in any number of dispatches.

use crate::compile::compile;
use crate::dispatch::{Dispatch, Order};
use crate::error::SanitizerError;
use crate::mutation::Mutation;
use crate::orders;
use crate::program::Program;
use crate::report::Report;
use crate::run;
use naga::ShaderStage;
use naga::valid::{Capabilities, ModuleInfo, SubgroupOperationSet, ValidationFlags, Validator};
use std::collections::BTreeSet;

/// A compute shader.
#[derive(Clone, Debug)]
pub struct Shader {
    source: String,
    module: naga::Module,
    info: ModuleInfo,
    entry: usize,
    aliases: Vec<String>,
    removed: Option<Mutation>,
}

impl Shader {
    /// Reads WGSL. The first compute entry point is run.
    ///
    /// # Errors
    /// What naga says of the text, or that it has no compute entry point.
    pub fn parse(wgsl: &str) -> Result<Self, SanitizerError> {
        Shader::parse_with_aliases(wgsl, &[])
    }

    /// The same for a runtime that has some variables of the workgroup stand for the memory of others: with the ending
    /// `_as_f16` a variable `tile_as_f16` is the memory of `tile`, its elements those of 16 bytes.
    ///
    /// # Errors
    /// As [`Shader::parse`].
    pub fn parse_with_aliases(wgsl: &str, endings: &[&str]) -> Result<Self, SanitizerError> {
        let line = |location: Option<naga::SourceLocation>| location.map_or(0, |l| l.line_number);
        let module = naga::front::wgsl::parse_str(wgsl)
            .map_err(|e| SanitizerError::Invalid { line: line(e.location(wgsl)), why: e.message().to_owned() })?;
        let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
        validator.subgroup_stages(naga::valid::ShaderStages::COMPUTE);
        validator.subgroup_operations(SubgroupOperationSet::all());
        let info = validator.validate(&module).map_err(|e| {
            let mut why = e.as_inner().to_string();
            let mut cause = std::error::Error::source(e.as_inner());
            while let Some(inner) = cause {
                why = format!("{why}: {inner}");
                cause = inner.source();
            }
            SanitizerError::Invalid { line: line(e.location(wgsl)), why }
        })?;
        let entry = module.entry_points.iter().position(|point| point.stage == ShaderStage::Compute);
        let entry = entry.ok_or(SanitizerError::NoEntryPoint)?;
        let aliases = endings.iter().map(|ending| (*ending).to_owned()).collect();
        Ok(Shader { source: wgsl.to_owned(), module, info, entry, aliases, removed: None })
    }

    /// The text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Runs a dispatch in its order.
    ///
    /// # Errors
    /// A construct that the interpreter does not know, a buffer that is missing or too short, or too many steps.
    pub fn run(&self, dispatch: &Dispatch) -> Result<Report, SanitizerError> {
        let program = self.program(dispatch.subgroup_size)?;
        let outcome = run::run(&program, dispatch, BTreeSet::new()).map_err(|error| self.located(&program, error))?;
        let findings = outcome.findings.reported(&program, &self.source, |_| None);
        let (is_complete, steps) = (outcome.is_complete, outcome.steps);
        Ok(Report { findings, buffers: outcome.buffers, is_complete, steps })
    }

    /// Runs a dispatch in several orders and reports everything that any of them shows, results that are not the same
    /// in all of them, and of races whether the value read is dropped. The buffers are those of the first order.
    ///
    /// # Errors
    /// As [`Shader::run`].
    pub fn check(&self, dispatch: &Dispatch, orders: &[Order]) -> Result<Report, SanitizerError> {
        let program = self.program(dispatch.subgroup_size)?;
        orders::check(&program, &self.source, dispatch, orders).map_err(|error| self.located(&program, error))
    }

    /// The shader without something that can be taken away.
    #[must_use]
    pub fn without(&self, mutation: &Mutation) -> Shader {
        Shader { removed: Some(mutation.clone()), ..self.clone() }
    }

    pub(crate) fn program(&self, subgroup_size: u32) -> Result<Program, SanitizerError> {
        if !subgroup_size.is_power_of_two() || !(4..=128).contains(&subgroup_size) {
            return Err(SanitizerError::SubgroupSize(subgroup_size));
        }
        let compiled = compile(&self.module, &self.info, self.entry, subgroup_size, &self.aliases);
        let mut program = compiled.map_err(|unknown| unknown.located(&self.source))?;
        if let Some(mutation) = &self.removed {
            mutation.apply(&mut program);
        }
        Ok(program)
    }

    /// The line of an instruction, for people.
    pub(crate) fn place(&self, program: &Program, op: u32) -> (u32, u32) {
        let span = program.spans.get(op as usize).filter(|span| span.is_defined());
        span.map_or((0, 0), |span| {
            let location = span.location(&self.source);
            (location.line_number, location.line_position)
        })
    }

    /// An error with the line of the instruction that it has.
    fn located(&self, program: &Program, error: SanitizerError) -> SanitizerError {
        match error {
            SanitizerError::TooLong { steps, line: op } => {
                SanitizerError::TooLong { steps, line: self.place(program, op).0 }
            }
            other => other,
        }
    }
}
