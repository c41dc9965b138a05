//! Tests the limits in `docs/PROTOCOL.md`: their values, and facts about disks and hosts at the limits and just
//! beyond.

#![allow(clippy::expect_used, clippy::unwrap_used)]

use hakobu_core::block_table::COPIES_MAX;
use hakobu_core::disk::{
    self, DISKS_MAX, DeviceFacts, DeviceUse, DiskList, NOTES_MAX, PARTITIONS_MAX, PATH_BYTES_MAX, Partition,
    SIGNATURES_MAX, Signature, SignatureKind, TEXT_BYTES_MAX, USES_MAX, UseKind,
};
use hakobu_core::extended::EXTENDED_BYTES_MAX;
use hakobu_core::filter::{RULE_BYTES_MAX, RULES_MAX};
use hakobu_core::host::{
    BOND_PORTS_MAX, Bond, HOST_DISKS_MAX, HostDisk, HostFacts, HostMount, KernelName,
    MOUNT_OPTIONS_BYTES_MAX, MOUNTS_MAX, NAME_BYTES_MAX, NETWORK_DEVICES_MAX, NetworkDevice,
    PROCESSOR_KINDS_MAX, Processors, QUEUES_MAX, QueueDiscipline,
};
use hakobu_core::path;
use hakobu_core::probe::{COMPRESSORS_MAX, REMARKS_MAX, STEPS_MAX};
use hakobu_proto::control::{AgentMessage, CONNECTIONS_MAX, DIRECTORIES_APART_MAX, MESSAGE_BYTES_MAX};
use hakobu_proto::data::{CHANGES_MAX, LIST_BUDGET_MAX, LIST_DIRECTORIES_MAX, NAMES_MAX};
use hakobu_proto::frame::{META_LIMIT_BYTES, PAYLOAD_LIMIT_BYTES};

/// Checks the values. A changed limit is a change of the protocol, and of the document.
#[test]
fn values() {
    let disks = [DISKS_MAX, PARTITIONS_MAX, SIGNATURES_MAX, USES_MAX, NOTES_MAX];
    assert_eq!(disks, [1024, 256, 32, 256, 32]);
    assert_eq!([TEXT_BYTES_MAX, disk::ID_BYTES_MAX, PATH_BYTES_MAX, NAME_BYTES_MAX], [512, 128, 4095, 64]);
    let hosts =
        [NETWORK_DEVICES_MAX, QUEUES_MAX, BOND_PORTS_MAX, PROCESSOR_KINDS_MAX, HOST_DISKS_MAX, MOUNTS_MAX];
    assert_eq!((hosts, MOUNT_OPTIONS_BYTES_MAX), ([256, 16, 64, 16, 1024, 512], 1024));
    assert_eq!([COMPRESSORS_MAX, STEPS_MAX, REMARKS_MAX], [16; 3]);
    assert_eq!([path::PATH_BYTES_MAX, path::NAME_BYTES_MAX, EXTENDED_BYTES_MAX], [4095, 255, 3_670_016]);
    assert_eq!([RULES_MAX, RULE_BYTES_MAX, DIRECTORIES_APART_MAX], [10_000, 4096, 4096]);
    assert_eq!([LIST_DIRECTORIES_MAX, CHANGES_MAX, NAMES_MAX, COPIES_MAX], [256, 1024, 256, 256]);
    assert_eq!((MESSAGE_BYTES_MAX, CONNECTIONS_MAX, LIST_BUDGET_MAX), (16_777_216, 72, 65_536));
    assert_eq!((META_LIMIT_BYTES, PAYLOAD_LIMIT_BYTES), (65_536, 4_194_304));
}

fn decodes(answer: &AgentMessage) -> bool {
    postcard::from_bytes::<AgentMessage>(&postcard::to_stdvec(answer).unwrap()).is_ok()
}

#[test]
fn facts_about_a_disk() {
    let decodes = |facts: DeviceFacts| decodes(&AgentMessage::Disks(Ok(DiskList(vec![facts]))));
    let most = || DeviceFacts {
        name: vec![b'x'; TEXT_BYTES_MAX],
        path: vec![b'x'; PATH_BYTES_MAX],
        partitions: vec![
            Partition { label: "l".repeat(TEXT_BYTES_MAX), ..Partition::default() };
            PARTITIONS_MAX
        ],
        contents: vec![signature(); SIGNATURES_MAX],
        uses: vec![DeviceUse { device: Vec::new(), kind: UseKind::Swap }; USES_MAX],
        notes: vec!["n".repeat(TEXT_BYTES_MAX); NOTES_MAX],
        ..DeviceFacts::default()
    };
    assert!(decodes(most()));
    let beyond: [fn(&mut DeviceFacts); 10] = [
        |facts| facts.name.push(b'x'),
        |facts| facts.path.push(b'x'),
        |facts| facts.partitions.push(Partition::default()),
        |facts| facts.partitions[0].label.push('l'),
        |facts| facts.contents.push(signature()),
        |facts| facts.uses.push(DeviceUse { device: Vec::new(), kind: UseKind::Swap }),
        |facts| facts.notes.push(String::new()),
        |facts| facts.notes[0].push('n'),
        |facts| facts.identity.id = "i".repeat(disk::ID_BYTES_MAX + 1),
        |facts| facts.boot.obstacles = vec![disk::BootObstacle::TableDamaged; NOTES_MAX + 1],
    ];
    for (number, change) in beyond.iter().enumerate() {
        let mut facts = most();
        change(&mut facts);
        assert!(!decodes(facts), "change {number}");
    }
}

fn signature() -> Signature {
    Signature { kind: SignatureKind::Ext4, offset_bytes: 0, uuid: String::new(), label: Vec::new() }
}

#[test]
fn a_list_of_disks() {
    let list = |disks| AgentMessage::Disks(Ok(DiskList(vec![DeviceFacts::default(); disks])));
    assert!(decodes(&list(DISKS_MAX)) && !decodes(&list(DISKS_MAX + 1)));
}

#[test]
fn facts_about_a_host() {
    let decodes = |facts: HostFacts| decodes(&AgentMessage::Settings(Ok(Box::new(facts))));
    let most = || {
        let name = KernelName::new(vec![b'x'; NAME_BYTES_MAX]);
        let mount = HostMount {
            path: vec![b'x'; PATH_BYTES_MAX],
            kind: name.clone(),
            options: vec![b'x'; MOUNT_OPTIONS_BYTES_MAX],
        };
        let bond = Bond { ports: vec![name.clone(); BOND_PORTS_MAX], ..Bond::default() };
        let queues = vec![QueueDiscipline::default(); QUEUES_MAX];
        let device = NetworkDevice { name, bond: Some(bond), queues, ..NetworkDevice::default() };
        HostFacts {
            devices: [vec![device], vec![NetworkDevice::default(); NETWORK_DEVICES_MAX - 1]].concat(),
            processors: vec![Processors::default(); PROCESSOR_KINDS_MAX],
            disks: vec![HostDisk::default(); HOST_DISKS_MAX],
            mounts: [vec![mount], vec![HostMount::default(); MOUNTS_MAX - 1]].concat(),
            unread: vec!["n".repeat(512); NOTES_MAX],
            ..HostFacts::default()
        }
    };
    assert!(decodes(most()));
    let beyond: [fn(&mut HostFacts); 10] = [
        |facts| facts.devices.push(NetworkDevice::default()),
        |facts| facts.processors.push(Processors::default()),
        |facts| facts.disks.push(HostDisk::default()),
        |facts| facts.mounts.push(HostMount::default()),
        |facts| facts.unread.push(String::new()),
        |facts| facts.unread[0].push('n'),
        |facts| facts.devices[0].bond.iter_mut().for_each(|bond| bond.ports.push(KernelName::default())),
        |facts| facts.devices[0].queues.push(QueueDiscipline::default()),
        |facts| facts.mounts[0].path.push(b'x'),
        |facts| facts.mounts[0].options.push(b'x'),
    ];
    for (number, change) in beyond.iter().enumerate() {
        let mut facts = most();
        change(&mut facts);
        assert!(!decodes(facts), "change {number}");
    }
}
