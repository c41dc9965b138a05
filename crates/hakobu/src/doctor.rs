//! The verb `doctor`, from the arguments to the exit code.

use std::time::Duration;

use hakobu_core::location::SshHost;
use hakobu_transfer::doctor;

use crate::arguments::doctor::DoctorArguments;
use crate::render::doctor::{json, text};
use crate::{exit, looking, settings, settings_file};

/// The content that measures the way is in memory, and is removed when it is interrupted.
const FAREWELL: Duration = Duration::from_secs(5);

/// Says what holds transfers back; returns the exit code.
pub fn doctor(typed: &DoctorArguments) -> u8 {
    let request = match settings::doctor_request(typed, settings_file::ssh_variable()) {
        Ok(request) => request,
        Err(errors) => return exit::errors(&errors),
    };
    let host = request.host.as_ref().map(SshHost::destination);
    looking::look(
        request.host.as_ref(),
        (request.sudo, typed.json),
        FAREWELL,
        |terminal, observer, cancel| {
            let diagnosis = doctor::doctor(&request, terminal, observer, cancel)?;
            match typed.json {
                true => json(host.as_deref(), &diagnosis),
                false => Ok(text(host.as_deref(), &diagnosis)),
            }
        },
    )
}
