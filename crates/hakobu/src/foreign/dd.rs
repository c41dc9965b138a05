//! Operands of dd: `if=/dev/sda of=/dev/sdb bs=4M`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The operands of dd in a line, taken apart.
#[derive(Debug, Default)]
pub struct Operands {
    source: Option<OsString>,
    target: Option<OsString>,
    /// True if the command line asks for something that hakobu cannot do.
    partial: bool,
}

impl Operands {
    /// Takes an argument, if it is one of dd's and no file has this name. Only where dd's way of naming files is used
    /// as well are the others meant.
    pub fn of(arguments: &[OsString]) -> Option<Self> {
        let mut operands = Self::default();
        for argument in arguments {
            operands.take(argument);
        }
        (operands.source.is_some() || operands.target.is_some()).then_some(operands)
    }

    fn take(&mut self, argument: &OsStr) {
        let Some((name, value)) = split(argument) else { return };
        match name {
            "if" => self.source = Some(value.to_owned()),
            "of" => self.target = Some(value.to_owned()),
            "count" | "skip" | "seek" | "iseek" | "oseek" | "cbs" => self.partial = true,
            _ => {}
        }
    }

    /// Source and target, where that is all that was asked for.
    pub fn places(self) -> Option<[OsString; 2]> {
        let standard = || OsString::from("-");
        let both = [self.source.unwrap_or_else(standard), self.target.unwrap_or_else(standard)];
        (!self.partial).then_some(both)
    }
}

/// Returns true if an argument is an operand of dd.
pub fn is_operand(argument: &OsStr) -> bool {
    split(argument).is_some()
}

/// The name of an operand and its value. A file of such a name is meant as what it is.
fn split(argument: &OsStr) -> Option<(&str, &OsStr)> {
    const NAMES: [&str; 15] = [
        "if", "of", "bs", "ibs", "obs", "cbs", "count", "skip", "seek", "iseek", "oseek", "conv", "iflag",
        "oflag", "status",
    ];
    let bytes = argument.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=')?;
    let name = std::str::from_utf8(&bytes[..at]).ok().filter(|name| NAMES.contains(name))?;
    let is_file = Path::new(argument).symlink_metadata().is_ok();
    (!is_file).then(|| (name, OsStr::from_bytes(&bytes[at + 1..])))
}
