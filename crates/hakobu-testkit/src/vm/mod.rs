//! Small virtual machines, for features that the kernel of the test machine may lack or events that it must not
//! suffer: RAID, LVM and encrypted volumes in use, and power cuts.
//!
//! A machine has a kernel of the distribution, a file system in memory with the necessary programs, disks that are
//! files, and one script, whose output arrives on a serial line. Its processor is emulated, so it cannot be used to
//! measure speed. A machine ends with the test that started it.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

mod initramfs;
mod kernel;
mod power_cut;

pub use initramfs::Initramfs;
pub use kernel::KernelPackage;
pub use power_cut::{LoggedDisk, PowerCut, UnflushedFate};

const LOOK_EVERY: Duration = Duration::from_millis(20);
const MEMORY_MIB: u32 = 1024;
/// Software emulation. KVM would be faster, but inside another virtual machine it may exist and not work.
const CPU: [&str; 4] = ["-accel", "tcg", "-cpu", "max"];
/// The line that the script prints after its last command. A machine that ends without it has failed.
const END: &str = "hakobu-vm: the end";

/// The modules without which there are no disks.
const DISK_MODULES: [&str; 2] = ["virtio_pci", "virtio_blk"];

/// The first process. If the test that supervises the machine is gone, it ends by itself.
const INIT: &str = "#!/bin/busybox sh
/bin/busybox mkdir -p /bin /sbin /usr/sbin
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/sbin:/usr/bin LC_ALL=C HOME=/root DM_DISABLE_UDEV=1
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
for module in $(cat /modules/order); do insmod /modules/$module; done
stty -F /dev/ttyS1 raw -echo
exec </dev/null >/dev/ttyS1 2>&1
(sleep LIMIT; reboot -f) &
sh /script
echo 'END'
sync
reboot -f
";

/// Shell functions for scripts: `step NAME COMMAND...` runs a command and prints its result for [`steps`].
pub const STEP: &str = "step() {
  local name=$1 code=0
  shift
  \"$@\" >/tmp/step 2>&1 || code=$?
  echo \"hakobu-vm: step $name $code\"
  cat /tmp/step
  echo
  echo 'hakobu-vm: done'
}
";

/// A disk of a machine. Disks are `/dev/vda`, `/dev/vdb` and so on, in order.
#[derive(Debug, Clone)]
pub struct VmDisk<'a> {
    /// The path of the file with the content, which has the size of the disk.
    pub file: &'a Path,
    /// The serial number: up to 20 letters and digits.
    pub serial: &'a str,
    /// The write rate limit in bytes per second, if the disk is to be slow.
    pub write_bytes_per_second: Option<u64>,
    /// The log of its writes.
    pub logged: Option<&'a LoggedDisk>,
}

impl<'a> VmDisk<'a> {
    /// Creates a disk without a rate limit.
    pub fn new(file: &'a Path, serial: &'a str) -> Self {
        Self { file, serial, write_bytes_per_second: None, logged: None }
    }

    /// Returns the arguments for QEMU. A logged disk supports neither discarding nor zeroing: discarding guarantees
    /// nothing, and zeroing is not logged correctly while other writes are in flight.
    fn arguments(&self, number: usize) -> [String; 4] {
        let mut drive = format!("if=none,id=disk{number},");
        let file = self.file.display();
        match self.logged {
            Some(LoggedDisk { log, .. }) => drive.push_str(&format!(
                "driver=blklogwrites,file.driver=raw,file.file.driver=file,file.file.filename={file},\
                 log.driver=file,log.filename={}",
                log.display()
            )),
            None => drive.push_str(&format!("format=raw,file={file}")),
        }
        if let Some(limit) = self.write_bytes_per_second {
            drive.push_str(&format!(",throttling.bps-write={limit}"));
        }
        let zeroing = if self.logged.is_some() { ",discard=off,write-zeroes=off" } else { "" };
        let device = format!("virtio-blk-pci,drive=disk{number},serial={}{zeroing}", self.serial);
        ["-drive".into(), drive, "-device".into(), device]
    }
}

/// The configuration of a machine, apart from its disks.
#[derive(Debug, Clone)]
pub struct VmKind {
    kernel: KernelPackage,
    files: Initramfs,
    modules: Vec<String>,
}

impl VmKind {
    /// Creates a machine with busybox, this kernel and these modules.
    ///
    /// # Errors
    /// If one of these is missing; the error contains its name.
    pub fn new(kernel: KernelPackage, modules: &[&str]) -> io::Result<Self> {
        let mut files = Initramfs::new();
        files.program(Path::new("/bin/busybox"), "/bin/busybox")?;
        let modules = kernel.install(&[&DISK_MODULES, modules].concat(), &mut files)?;
        Ok(Self { kernel, files, modules })
    }

    /// Adds a program of this machine, with its libraries.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn program(&mut self, path: impl AsRef<Path>, to: &str) -> io::Result<()> {
        self.files.program(path.as_ref(), to)
    }

    /// Starts a machine that runs a script with busybox's shell, for at most `limit`.
    ///
    /// # Errors
    /// If QEMU is not installed.
    pub fn start(&self, disks: &[VmDisk<'_>], script: &str, limit: Duration) -> io::Result<Vm> {
        let place = tempfile::Builder::new().prefix("hakobu-vm-").tempdir()?;
        let mut files = self.files.clone();
        files.file(
            "/init",
            INIT.replace("LIMIT", &limit.as_secs().to_string()).replace("END", END).as_bytes(),
        );
        files.file("/script", [STEP, script].concat().as_bytes());
        files.file("/modules/order", self.modules.join("\n").as_bytes());
        let archive = place.path().join("initramfs");
        std::fs::write(&archive, files.finish())?;
        let serial = |name: &str| format!("file:{}", place.path().join(name).display());
        // The machine ends with the thread that starts it, for whatever reason.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "qemu-system-x86_64", "-nodefaults", "-no-user-config"]);
        command.args(["-display", "none", "-machine", "q35"]).args(CPU);
        command.args(["-smp", "2", "-m", &MEMORY_MIB.to_string(), "-no-reboot", "-kernel"]);
        command.arg(self.kernel.image()).arg("-initrd").arg(&archive);
        command.args(["-append", "console=ttyS0 panic=-1 rdinit=/init"]);
        command.args(["-serial", &serial("console"), "-serial", &serial("output")]);
        for (number, disk) in disks.iter().enumerate() {
            command.args(disk.arguments(number));
        }
        let errors = std::fs::File::create(place.path().join("errors"))?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn()?;
        Ok(Vm { child, place, deadline: Instant::now() + limit })
    }
}

/// A running machine.
#[derive(Debug)]
pub struct Vm {
    child: Child,
    place: TempDir,
    deadline: Instant,
}

impl Vm {
    /// Returns the output of the script so far.
    pub fn output(&self) -> String {
        self.read("output")
    }

    /// Waits until `holds` returns true for the output of the script.
    ///
    /// # Errors
    /// If the machine ends, or its time is over.
    pub fn wait_until(&mut self, holds: impl Fn(&str) -> bool) -> io::Result<()> {
        while !holds(&self.output()) {
            if self.child.try_wait()?.is_some() {
                return Err(self.failed("ended too soon"));
            }
            self.wait_a_moment()?;
        }
        Ok(())
    }

    /// Waits for the end of the script, and returns its output.
    ///
    /// # Errors
    /// If the machine does not finish in time.
    pub fn wait(mut self) -> io::Result<String> {
        while self.child.try_wait()?.is_none() {
            self.wait_a_moment()?;
        }
        let output = self.output();
        if output.contains(END) { Ok(output) } else { Err(self.failed("did not get to the end")) }
    }

    /// Kills the machine in its current state, and returns the output of the script.
    ///
    /// # Errors
    /// If it had already ended.
    pub fn kill(mut self) -> io::Result<String> {
        self.child.kill()?;
        if self.child.wait()?.signal().is_none() {
            return Err(self.failed("had ended before it was killed"));
        }
        Ok(self.output())
    }

    fn wait_a_moment(&self) -> io::Result<()> {
        if Instant::now() > self.deadline {
            return Err(self.failed("takes too long"));
        }
        std::thread::sleep(LOOK_EVERY);
        Ok(())
    }

    fn failed(&self, what: &str) -> io::Error {
        let said = ["errors", "console", "output"].map(|name| self.read(name));
        io::Error::other(format!("the virtual machine {what}:\n{}", said.join("\n--\n")))
    }

    fn read(&self, name: &str) -> String {
        let bytes = std::fs::read(self.path(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\r', "")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The result of a step of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptStep {
    /// The name that the script gives it.
    pub name: String,
    /// The exit code.
    pub code: i32,
    /// The output of the command.
    pub output: String,
}

/// Returns all steps in the output of a script.
pub fn steps(output: &str) -> Vec<ScriptStep> {
    let mut found = Vec::new();
    for part in output.split("hakobu-vm: step ").skip(1) {
        let (head, rest) = part.split_once('\n').unwrap_or((part, ""));
        let Some((name, code)) = head.split_once(' ') else { continue };
        let Some((output, _)) = rest.split_once("hakobu-vm: done") else { continue };
        let code = code.trim().parse().unwrap_or(-1);
        found.push(ScriptStep { name: name.to_owned(), code, output: output.trim().to_owned() });
    }
    found
}
