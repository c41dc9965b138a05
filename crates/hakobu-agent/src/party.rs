//! A machine that takes part in a transfer, be it this one or one with an agent.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::disk::DiskList;
use hakobu_core::error::Result;
use hakobu_core::event::Observer;
use hakobu_core::landing::Ancestry;
use hakobu_core::path::EntryPath;
use hakobu_proto::control::{
    Answer, ConnectRequest, Listening, Machine, Ran, Request, RunHereRequest, RunRequest, ServeRequest,
    Served, SourceAsk, SourceLook, TargetLook,
};

use crate::far::FarSide;
use crate::look;
use crate::side::{Side, Stop};

/// A machine that takes part.
pub enum Party {
    /// This machine.
    Here(Box<Side>),
    /// A machine with an agent.
    There(Box<FarSide>),
}

macro_rules! ask {
    ($far:expr, $request:expr, $answer:ident) => {
        match $far.ask(&$request)? {
            Answer::$answer(answer) => answer,
            _ => return Err($far.unexpected()),
        }
    };
}

impl Party {
    /// This machine, taking no part but dialling.
    pub fn here() -> Self {
        Party::Here(Box::new(Side::new(Stop::default())))
    }

    /// Whether it is this machine.
    pub fn is_here(&self) -> bool {
        matches!(self, Party::Here(_))
    }

    /// Facts about it.
    pub fn machine(&self) -> Machine {
        match self {
            Party::Here(side) => side.machine(),
            Party::There(far) => far.hello.machine.clone(),
        }
    }

    /// The fingerprint of its certificate.
    ///
    /// # Errors
    /// `Usage` for this machine, if it takes part alone.
    pub fn fingerprint(&self) -> Result<[u8; 32]> {
        match self {
            Party::Here(side) => side.fingerprint(),
            Party::There(far) => Ok(far.hello.fingerprint),
        }
    }

    /// How long a question to it takes.
    pub fn round_trip(&self) -> Duration {
        match self {
            Party::Here(_) => Duration::ZERO,
            Party::There(far) => far.round_trip,
        }
    }

    /// A path of it for people: with the host before it, if it is another one.
    pub fn name_of(&self, path: &[u8]) -> Vec<u8> {
        match self {
            Party::Here(_) => path.to_vec(),
            Party::There(far) => [far.host.as_bytes(), b":", path].concat(),
        }
    }

    /// Looks at sources.
    pub fn look_at_sources(&mut self, sources: Vec<SourceAsk>) -> Result<Vec<Result<SourceLook>>> {
        Ok(match self {
            Party::Here(_) => sources.iter().map(look::source).collect(),
            Party::There(far) => ask!(far, Request::LookAtSources { sources }, Sources),
        })
    }

    /// Looks at a target.
    pub fn look_at_target(&mut self, path: &[u8]) -> Result<TargetLook> {
        match self {
            Party::Here(_) => look::target(path),
            Party::There(far) => ask!(far, Request::LookAtTarget { path: path.to_vec() }, Target),
        }
    }

    /// Finds out who places below a directory are.
    pub fn look_at_places(&mut self, root: &[u8], places: &[EntryPath]) -> Result<Vec<Ancestry>> {
        match self {
            Party::Here(_) => places.iter().map(|place| look::place(root, place)).collect(),
            Party::There(far) => {
                let request = Request::LookAtPlaces { root: root.to_vec(), places: places.to_vec() };
                ask!(far, request, Places)
            }
        }
    }

    /// Lists its disks.
    pub fn disks(&mut self) -> Result<DiskList> {
        match self {
            Party::Here(_) => look::disks(),
            Party::There(far) => ask!(far, Request::Disks, Disks),
        }
    }

    /// Opens a port there.
    pub fn listen(&mut self, address: Option<&str>, port: Option<u16>) -> Result<Listening> {
        match self {
            Party::Here(side) => {
                let port = side.listen(address, port)?;
                Ok(Listening { port, addresses: address.map(str::to_owned).into_iter().collect() })
            }
            Party::There(far) => {
                ask!(far, Request::Listen { address: address.map(str::to_owned), port }, Listening)
            }
        }
    }

    /// Makes it hold the target.
    pub fn serve(&mut self, request: ServeRequest) -> Result<Capabilities> {
        match self {
            Party::Here(side) => side.serve(&request),
            Party::There(far) => ask!(far, Request::Serve(request), Serving),
        }
    }

    /// Makes it let go of the target. `cut` says that the line to it may be cut, or that a stop was
    /// asked for, so that there is little point in waiting for an answer.
    pub fn end_serving(&mut self, cut: bool) -> Result<Served> {
        let limit = if cut { Duration::from_secs(5) } else { Duration::from_secs(60) };
        match self {
            Party::Here(side) => Ok(side.end_serving()),
            Party::There(far) => match far.ask_for(&Request::EndServing, limit)? {
                Answer::Served(served) => Ok(served),
                _ => Err(far.unexpected()),
            },
        }
    }

    /// Makes it give up a run on this machine when the control connection to `other` is gone: the
    /// agent there ends then, and its connections may not tell. An engine elsewhere has a control
    /// connection of its own.
    ///
    /// # Errors
    /// `Io` when no file descriptor is left.
    pub fn depend_on(&mut self, other: &Party) -> Result<()> {
        if let (Party::Here(side), Party::There(far)) = (self, other) {
            side.depend_on(far.control()?);
        }
        Ok(())
    }

    /// Makes it connect as the engine's side.
    pub fn connect(&mut self, request: ConnectRequest) -> Result<()> {
        match self {
            Party::Here(side) => side.connect(&request),
            Party::There(far) => ask!(far, Request::Connect(request), Connected),
        }
    }

    /// Runs a job over its connections.
    pub fn run(&mut self, request: RunRequest, observer: &dyn Observer, cancel: &AtomicBool) -> Result<Ran> {
        match self {
            Party::Here(side) => Ok(side.run(&request, observer)),
            Party::There(far) => far.run(&Request::Run(request), observer, cancel),
        }
    }

    /// Runs a job of which both ends are there.
    pub fn run_here(
        &mut self,
        request: RunHereRequest,
        observer: &dyn Observer,
        cancel: &AtomicBool,
    ) -> Result<Ran> {
        match self {
            Party::Here(side) => Ok(side.run_here(&request, observer)),
            Party::There(far) => far.run(&Request::RunHere(request), observer, cancel),
        }
    }
}
