//! Checks the requests to an agent that is restricted to one directory. Each request is checked before anything is
//! done, and is changed if it names a file by another path than the checked one.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use hakobu_core::endpoint::DraftKind;
use hakobu_core::engine::RunSummary;
use hakobu_core::entry::EntryKind;
use hakobu_core::error::{Error, ErrorKind, ErrorStep, Result};
use hakobu_core::grant::{Grant, GrantedPlace};
use hakobu_core::job::Job;
use hakobu_core::landing::{Ancestry, TargetFound};
use hakobu_core::path::EntryPath;
use hakobu_proto::control::{
    AgentMessage, ConnectMode, ConnectRequest, MachinePath, ProbeAsk, Request, RunHereRequest, RunRequest,
    RunUsage, ServeRequest, SourceAsk, SourceLook, TargetLook,
};

use super::inspect;
use super::restriction::{Restriction, shown};

/// The target for digests, which discards content: a directory, and the name in it.
const NOWHERE: (&[u8], &[u8]) = (b"/dev", b"null");

/// A request that may be carried out, or the answer that refuses it.
pub(crate) type CheckedRequest = std::result::Result<Request, Box<AgentMessage>>;

impl Restriction {
    /// Checks a request. The paths of examinations are checked one by one, by [`Restriction::source`] and
    /// [`Restriction::target`].
    pub(crate) fn check(&self, request: Request) -> CheckedRequest {
        let refused = |answer: AgentMessage| Err(Box::new(answer));
        match request {
            Request::LookAtPlaces { root, places } => match self.places(&root, &places) {
                // Use the checked path, not the typed one.
                Ok(root) => Ok(Request::LookAtPlaces { root, places }),
                Err(error) => refused(AgentMessage::Places(Err(error))),
            },
            Request::Listen { address, port } => match self.address(address.as_deref()) {
                Ok(()) => Ok(Request::Listen { address, port }),
                Err(error) => refused(AgentMessage::Listening(Err(error))),
            },
            Request::Serve(request) => match self.serve(request) {
                Ok(request) => Ok(Request::Serve(request)),
                Err(error) => refused(AgentMessage::Serving(Err(error))),
            },
            Request::Connect(request) => match self.connect(&request) {
                Ok(()) => Ok(Request::Connect(request)),
                Err(error) => refused(AgentMessage::Connected(Err(error))),
            },
            Request::Run(request) => match self.run(request) {
                Ok(request) => Ok(Request::Run(request)),
                Err(error) => refused(failed(error)),
            },
            Request::RunHere(request) => match self.run_here(request) {
                Ok(request) => Ok(Request::RunHere(request)),
                Err(error) => refused(failed(error)),
            },
            Request::Disks => refused(AgentMessage::Disks(Err(self.no_disks("listing the disks")))),
            Request::Probe(ask) => match self.probe(ask) {
                Ok(ask) => Ok(Request::Probe(ask)),
                Err(error) => refused(AgentMessage::Probe(Err(error))),
            },
            Request::Settings => refused(AgentMessage::Settings(Err(self.no_settings()))),
            Request::OpenStore(_) => refused(AgentMessage::StoreOpened(Err(self.no_stores()))),
            // None of them makes sense without an open store.
            Request::LookInStore(_) | Request::RunWithStore(_) | Request::RemoveUnfinished { .. } => {
                refused(AgentMessage::Refused(self.no_stores()))
            }
            Request::Hello { .. }
            | Request::LookAtSources { .. }
            | Request::LookAtTarget { .. }
            | Request::Cancel
            | Request::Limits(_)
            | Request::Alive
            | Request::HoldApart(_)
            | Request::EndServing
            | Request::Ciphers => Ok(request),
        }
    }

    /// Examines a source, if this login may access it.
    ///
    /// # Errors
    /// `PermissionDenied`, and the errors of the examination.
    pub(crate) fn source(&self, ask: &SourceAsk) -> Result<SourceLook> {
        const DURING: &str = "looking at the source";
        let place = self.resolve(&ask.path, ask.contents, DURING)?;
        // A symbolic link to a device stands for the device.
        let led_to = self.beneath.resolve(&ask.path, true).unwrap_or_else(|_| place.clone());
        self.refuse_device(&led_to, DURING).map_err(|error| error.at(&ask.path))?;
        let look = inspect::source(&self.beneath, &place, ask)?;
        // A device may have replaced it meanwhile.
        match look.kind != EntryKind::BlockDevice {
            true => Ok(look),
            false => Err(self.outside(DURING).at(&ask.path)),
        }
    }

    /// Examines a target, if this login may access it.
    ///
    /// # Errors
    /// `PermissionDenied`, and the errors of the examination.
    pub(crate) fn target(&self, typed: &[u8]) -> Result<TargetLook> {
        const DURING: &str = "looking at the target";
        if typed == [NOWHERE.0, b"/", NOWHERE.1].concat() {
            // Every use of it is checked where it is used.
            return crate::inspect::target(typed);
        }
        // A slash behind a dangling symbolic link does not make its target a directory.
        let place = self.resolve(without_slashes(typed), false, DURING)?;
        let led_to = self.resolve(typed, true, DURING)?;
        self.refuse_device(&led_to, DURING).map_err(|error| error.at(typed))?;
        let look = inspect::target(&self.beneath, &place, &led_to, typed)?;
        match look.found != TargetFound::BlockDevice {
            true => Ok(look),
            false => Err(self.no_disks(DURING).at(typed)),
        }
    }

    /// Returns the identities of a path below a checked root, and of all directories above it.
    ///
    /// # Errors
    /// The errors of the examination.
    pub(crate) fn place(&self, root: &[u8], place: &EntryPath) -> Result<Ancestry> {
        inspect::place(&self.beneath, path(root), place)
    }

    /// Opens the path to be measured, and changes the request so that it names the open file.
    ///
    /// # Errors
    /// The path cannot be opened.
    pub(crate) fn hold(&self, ask: &mut ProbeAsk) -> Result<Option<OwnedFd>> {
        let (held, during, path) = match ask {
            ProbeAsk::Source(ask) => {
                (self.beneath.hold(path(&ask.path)), "measuring the source", &mut ask.path)
            }
            ProbeAsk::Target(ask) => {
                (self.beneath.hold_directory(path(&ask.path)), "measuring the target", &mut ask.path)
            }
            ProbeAsk::Machine { .. } | ProbeAsk::Way { .. } => return Ok(None),
        };
        let (fd, way) = held.map_err(|error| Error::io(during, &error).at(&*path))?;
        *path = bytes(way);
        Ok(Some(fd))
    }

    /// Checks paths whose identities are requested. Returns the resolved root.
    fn places(&self, root: &[u8], places: &[EntryPath]) -> Result<Vec<u8>> {
        const DURING: &str = "looking at the target";
        let root = bytes(self.resolve(root, true, DURING)?);
        for place in places {
            self.resolve(&[&root, b"/".as_slice(), place.as_bytes()].concat(), place.is_root(), DURING)?;
        }
        Ok(root)
    }

    /// Refuses host names unless the login may connect, because looking them up contacts other hosts.
    fn address(&self, address: Option<&str>) -> Result<()> {
        match address {
            Some(address) if !self.may_connect && address.parse::<IpAddr>().is_err() => {
                let words = "this login may not look up names over there; give the address itself";
                {
                    let error = Error::new(ErrorKind::PermissionDenied, "opening a port for data", words);
                    Err(error.in_step(ErrorStep::Restriction).at(address))
                }
            }
            _ => Ok(()),
        }
    }

    fn serve(&self, mut request: ServeRequest) -> Result<ServeRequest> {
        self.way(&request.way)?;
        self.written(&mut request.root, &mut request.grant)?;
        Ok(request)
    }

    fn connect(&self, request: &ConnectRequest) -> Result<()> {
        self.way(&request.way)
    }

    /// Checks the direction of a data connection. The refusal looks like that of an unreachable port, so that the peer
    /// tries the next direction.
    fn way(&self, way: &ConnectMode) -> Result<()> {
        match way {
            ConnectMode::Dial { .. } if !self.may_connect => {
                let words =
                    "this login may make no connections over there (--may-connect on its key would let it)";
                Err(Error::new(ErrorKind::PermissionDenied, "dialling", words).in_step(ErrorStep::Connect))
            }
            _ => Ok(()),
        }
    }

    /// Checks a measurement: it reads and writes only what a copy may.
    fn probe(&self, mut ask: ProbeAsk) -> Result<ProbeAsk> {
        let place = |path: &mut Vec<u8>, during| {
            let place = self.resolve(path, true, during)?;
            self.refuse_device(&place, during).map_err(|error| error.at(&*path))?;
            *path = bytes(place);
            Ok(())
        };
        match &mut ask {
            ProbeAsk::Source(ask) => place(&mut ask.path, "measuring the source")?,
            ProbeAsk::Target(ask) => {
                place(&mut ask.path, "measuring the target")?;
                ask.write &= !self.read_only;
                ask.device.clear();
            }
            ProbeAsk::Machine { .. } | ProbeAsk::Way { .. } => {}
        }
        Ok(ask)
    }

    fn run(&self, mut request: RunRequest) -> Result<RunRequest> {
        self.read(&mut request.roots, &request.job)?;
        Ok(request)
    }

    fn run_here(&self, mut request: RunHereRequest) -> Result<RunHereRequest> {
        self.read(&mut request.roots, &request.job)?;
        if !request.job.mode.is_digest() {
            request.grant.only_reads |= request.job.dry_run || request.job.mode.only_reads();
            self.written(&mut request.root, &mut request.grant)?;
            return Ok(request);
        }
        let nowhere = |target: &EntryPath| target.as_bytes() == NOWHERE.1;
        let job = &request.job;
        if request.root != NOWHERE.0
            || job.make_directory.is_some()
            || !job.items.iter().all(|item| nowhere(&item.target) && item.place == DraftKind::Sink)
        {
            return Err(self.outside("taking a digest").at(&request.root));
        }
        request.grant = digesting()?;
        Ok(request)
    }

    /// Checks the roots that the engine reads. The parent of this login's directory is allowed too, for items that name
    /// the directory itself.
    fn read(&self, roots: &mut [MachinePath], job: &Job) -> Result<()> {
        const DURING: &str = "reading the source";
        let own = self.beneath.path();
        for (index, root) in roots.iter_mut().enumerate() {
            match self.beneath.resolve(&root.0, true) {
                Ok(place) => root.0 = bytes(place),
                Err(_) => {
                    let is_above = own.parent().is_some_and(|above| above.as_os_str().as_bytes() == root.0);
                    let name = own.file_name().map(OsStr::as_bytes);
                    let mut items = job.items.iter().filter(|item| usize::from(item.root) == index);
                    if !is_above || !items.all(|item| item.source.names().next() == name) {
                        return Err(self.outside(DURING).at(&root.0));
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks the target that a peer writes to or compares.
    fn written(&self, root: &mut Vec<u8>, grant: &mut Grant) -> Result<()> {
        const DURING: &str = "opening the target";
        if self.read_only && !grant.only_reads {
            let words = format!("this login may only read beneath {}", shown(self.beneath.path()));
            return Err(Error::new(ErrorKind::PermissionDenied, DURING, words)
                .in_step(ErrorStep::Restriction)
                .at(&*root));
        }
        if grant.places.iter().any(|place| place.device.is_some()) {
            return Err(self.no_disks(DURING));
        }
        *root = bytes(self.resolve(root, true, DURING)?);
        // Through a device node a disk would become reachable beneath the directory, and a set-ID bit lends the account
        // to others.
        grant.may_make_devices = false;
        grant.may_set_id = false;
        Ok(())
    }

    fn resolve(&self, path: &[u8], follow: bool, during: &'static str) -> Result<PathBuf> {
        self.beneath.resolve(path, follow).map_err(|_| self.outside(during).at(path))
    }

    /// Refuses block devices. A missing path passes.
    fn refuse_device(&self, place: &Path, during: &'static str) -> Result<()> {
        let kind = self.beneath.lstat(place).map(|found| found.file_type());
        match kind.is_ok_and(|kind| kind.is_block_device()) {
            true => Err(self.no_disks(during)),
            false => Ok(()),
        }
    }

    fn outside(&self, during: &'static str) -> Error {
        let words = format!("this login may only use what is beneath {}", shown(self.beneath.path()));
        Error::new(ErrorKind::PermissionDenied, during, words).in_step(ErrorStep::Restriction)
    }

    fn no_settings(&self) -> Error {
        let words = format!(
            "this login may only use files beneath {}, and not see what the machine is set to",
            shown(self.beneath.path())
        );
        Error::new(ErrorKind::PermissionDenied, "reading the settings", words).in_step(ErrorStep::Restriction)
    }

    /// Returns the refusal of stores: they are beyond the directory, and opened with all rights of the account.
    fn no_stores(&self) -> Error {
        let words = format!(
            "this login may only use files beneath {}, and no stores; leave out --open-at",
            shown(self.beneath.path())
        );
        Error::new(ErrorKind::PermissionDenied, "opening the store", words).in_step(ErrorStep::Restriction)
    }

    fn no_disks(&self, during: &'static str) -> Error {
        let words =
            format!("this login may only use files beneath {}, and no disks", shown(self.beneath.path()));
        Error::new(ErrorKind::PermissionDenied, during, words).in_step(ErrorStep::Restriction)
    }
}

/// Returns the grant for taking digests: content may be written where it is discarded, and not even attributes may be
/// set there.
fn digesting() -> Result<Grant> {
    Ok(Grant {
        places: vec![GrantedPlace::new(EntryPath::new(NOWHERE.1)?, true)],
        may_chown: false,
        may_set_id: false,
        may_make_devices: false,
        may_remove: false,
        only_reads: true,
        bytes_max: None,
        source_directories: Vec::new(),
        lease: None,
        may_write_in_place: false,
    })
}

/// Returns true if a target is the one that the digest grant allows.
pub(crate) fn is_nowhere(root: &[u8], grant: &Grant) -> bool {
    root == NOWHERE.0 && digesting().is_ok_and(|digesting| *grant == digesting)
}

/// Returns a path without the slashes and dots at its end that require a directory.
fn without_slashes(mut path: &[u8]) -> &[u8] {
    while let Some(rest) =
        path.strip_suffix(b"/").or(path.strip_suffix(b"/.")).filter(|rest| !rest.is_empty())
    {
        path = rest;
    }
    path
}

fn failed(error: Error) -> AgentMessage {
    let summary = RunSummary { fatal: Some(error), ..RunSummary::default() };
    AgentMessage::Ran(Box::new(RunUsage { summary, ..RunUsage::default() }))
}

fn bytes(path: PathBuf) -> Vec<u8> {
    path.into_os_string().into_vec()
}

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
