//! Addresses that steps with a network do not reach: the metadata services of clouds, which give credentials to every process
//! of the machine, and private networks where the user or the administrator closes them.
//!
//! They are closed by rules of the kernel for the network namespace of the run. A helper container enters that namespace with
//! the capability NET_ADMIN, sends the rules and is gone before the first step; the steps have no capability to remove them.
//! Rules come before all routes but those to the addresses of the container itself, so they also cover the network that the
//! container is directly connected to, and they stay when the engine disconnects the container and connects it again.
//!
//! The image of the user may have no program that sends rules, and `act` itself may be built for another system or another
//! C library than the engine's. The helper is therefore a program of a few hundred bytes that needs neither: a header, the
//! instructions below, and the messages for the kernel, which are built here.

use crate::container::Container;
use crate::docker_verifier::{DockerVerifier, container_name};
use crate::engine::owner_labels;
use crate::request::ContainerRequest;
use act_config::Step;
use act_core::process::Process;
use act_core::verification::{ErrorType, InfraError, Warning, WarningCode};
use act_records::artifacts::RunDir;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tokio_util::sync::CancellationToken;

/// Seconds after which the helper counts as dead, if its process died. It works for some milliseconds.
const LIFETIME: i64 = 300;

/// The path of the helper in its own container.
const HELPER: &str = "/act-close-network";

/// Addresses with a prefix length, which steps do not reach.
struct Range {
    address: IpAddr,
    bits: u8,
    /// The rule holds for these protocols alone; empty for all of them.
    protocols: &'static [u8],
}

const TCP: u8 = 6;
const UDP: u8 = 17;
/// The protocols for which a process without capabilities opens a socket: TCP, UDP, DCCP, L2TP, SCTP and UDP-Lite. Rules for
/// private addresses name them. A rule for everything would also hold for the reverse path of a packet from there, and where
/// the kernel filters by reverse paths it would drop the gateway's ARP; a rule for ICMP, or a route of the type `blackhole` or
/// `prohibit`, would drop the gateway's message that a packet is too large, without which connections to the internet hang
/// behind a smaller MTU. ICMP is closed by the kernel's setting for its sockets instead (`Network::On`).
const SOCKETS: [u8; 6] = [TCP, UDP, 33, 115, 132, 136];

const fn v4(address: [u8; 4], bits: u8, protocols: &'static [u8]) -> Range {
    let [a, b, c, d] = address;
    Range { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits, protocols }
}

const fn v6(address: [u16; 8], bits: u8, protocols: &'static [u8]) -> Range {
    let [a, b, c, d, e, f, g, h] = address;
    Range { address: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), bits, protocols }
}

/// Link-local addresses, where most clouds have their metadata services, and Amazon's address for IPv6, which is not
/// link-local.
const LINK_LOCAL: [Range; 3] = [
    v4([169, 254, 0, 0], 16, &[]),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, &[]),
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128, &[]),
];

/// Private addresses of RFC 1918, RFC 6598 (networks of providers) and RFC 4193.
const PRIVATE: [Range; 5] = [
    v4([10, 0, 0, 0], 8, &SOCKETS),
    v4([172, 16, 0, 0], 12, &SOCKETS),
    v4([192, 168, 0, 0], 16, &SOCKETS),
    v4([100, 64, 0, 0], 10, &SOCKETS),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, &SOCKETS),
];

/// Returns the ranges that are closed.
fn closed(private: bool) -> impl Iterator<Item = &'static Range> {
    let private = if private { &PRIVATE[..] } else { &[] };
    LINK_LOCAL.iter().chain(private)
}

impl Range {
    fn name(&self) -> String {
        match (self.address, self.bits) {
            (address @ IpAddr::V6(_), 128) => address.to_string(),
            (address, bits) => format!("{address}/{bits}"),
        }
    }

    /// Returns the messages that close the range.
    ///
    /// Name servers stay reachable, at port 53: some clouds have theirs at a link-local address (Google's is that of its
    /// metadata service), and most offices at a private one. A container there would find no registry without it, and a name
    /// server answers a step anyway that has a network. A kernel that does not know rules for ports would ignore that part and
    /// open the range, so it gets no such rule.
    fn messages(&self, with_ports: bool) -> Vec<u8> {
        let mut out = vec![];
        if with_ports {
            for protocol in [UDP, TCP] {
                out.extend(self.rule(FIRST, TO_MAIN_TABLE, Some(protocol), PORT_53));
            }
        }
        if self.protocols.is_empty() {
            out.extend(self.rule(SECOND, UNREACHABLE, None, &[]));
        }
        for &protocol in self.protocols {
            let ports = match protocol {
                UDP if with_ports && self.address.is_ipv4() => &ALL_BUT_PORT_0[..],
                _ => &[&[][..]],
            };
            for ports in ports {
                out.extend(self.rule(SECOND, UNREACHABLE, Some(protocol), ports));
            }
        }
        out
    }

    /// Returns the netlink message that adds one rule (`struct nlmsghdr`, `struct fib_rule_hdr`, attributes).
    fn rule(&self, priority: u32, action: u8, protocol: Option<u8>, ports: Ports) -> Vec<u8> {
        const RTM_NEWRULE: u16 = 32;
        // NLM_F_REQUEST, NLM_F_ACK, NLM_F_EXCL, NLM_F_CREATE
        const FLAGS: u16 = 0x1 | 0x4 | 0x200 | 0x400;
        const DST: u16 = 1;
        const PRIORITY: u16 = 6;
        const TABLE: u16 = 15;
        const IP_PROTOCOL: u16 = 22;
        const MAIN: u8 = 254;
        let (family, address) = match self.address {
            IpAddr::V4(address) => (2, address.octets().to_vec()),
            IpAddr::V6(address) => (10, address.octets().to_vec()),
        };
        let table = if action == TO_MAIN_TABLE { MAIN } else { 0 };
        let mut body = vec![family, self.bits, 0, 0, table, 0, 0, action, 0, 0, 0, 0];
        let mut attribute = |kind: u16, value: &[u8]| {
            let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
            body.extend([length.to_le_bytes(), kind.to_le_bytes()].concat());
            body.extend(value);
            body.resize(body.len().next_multiple_of(4), 0);
        };
        attribute(DST, &address);
        attribute(PRIORITY, &priority.to_le_bytes());
        if action == TO_MAIN_TABLE {
            attribute(TABLE, &u32::from(MAIN).to_le_bytes());
        }
        if let Some(protocol) = protocol {
            attribute(IP_PROTOCOL, &[protocol]);
        }
        for (kind, numbers) in ports {
            let numbers: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            attribute(*kind, &numbers);
        }
        let length = u32::try_from(body.len() + 16).unwrap_or(u32::MAX);
        let mut message = length.to_le_bytes().to_vec();
        message.extend([RTM_NEWRULE.to_le_bytes(), FLAGS.to_le_bytes()].concat());
        // The sequence number and the port, which the kernel ignores here.
        message.extend([0; 8]);
        message.extend(body);
        message
    }
}

/// Attributes of a rule that name ports: a range of source or destination ports, or a mask of the bits of a destination port
/// that have to be those of the range, which has one port then. A rule without any holds for all ports.
type Ports = &'static [(u16, &'static [u16])];
const FROM: u16 = 23;
const TO: u16 = 24;
const TO_MASK: u16 = 29;

const PORT_53: Ports = &[(TO, &[53, 53])];

/// Rules that close UDP to each port but port 0, to which no socket can send. Docker asks the kernel for the route to the
/// gateway before it connects a container again, and the kernel answers as for UDP from port 0 to port 0.
///
/// The kernel takes no range with port 0 or port 65535. Port 65535 is therefore closed by its highest bit, which Linux 6.15
/// introduced; an older kernel ignores the mask and closes port 32768 once more. There the rule for source ports leaves
/// only what is sent from port 65535 to port 65535.
const ALL_BUT_PORT_0: [Ports; 3] = [
    &[(TO, &[1, 65_534])],
    &[(FROM, &[1, 65_534])],
    &[(TO, &[0x8000, 0x8000]), (TO_MASK, &[0x8000])],
];

/// Priorities of the rules: after the rule for the addresses of the container itself (0), before all others.
const FIRST: u32 = 1;
const SECOND: u32 = 2;
/// Actions of a rule.
const TO_MAIN_TABLE: u8 = 1;
const UNREACHABLE: u8 = 7;

/// The helper for x86_64. It sends each of the messages behind it to the kernel and ends with 0, or with the number of the first
/// error. A message for a family of addresses that the kernel does not have is left out. The messages end with a length of 0.
#[rustfmt::skip]
const X86_64: [u8; 149] = [
    0xbf, 0x10, 0, 0, 0,                      //       mov edi, AF_NETLINK
    0xbe, 0x03, 0, 0, 0,                      //       mov esi, SOCK_RAW
    0x31, 0xd2,                               //       xor edx, edx              NETLINK_ROUTE
    0xb8, 0x29, 0, 0, 0,                      //       mov eax, 41               socket
    0x0f, 0x05,                               //       syscall
    0x85, 0xc0,                               //       test eax, eax
    0x78, 0x73,                               //       js fail
    0x89, 0xc3,                               //       mov ebx, eax
    0x4c, 0x8d, 0x25, 0x75, 0, 0, 0,          //       lea r12, [rip + messages]
    0x45, 0x8b, 0x2c, 0x24,                   // next: mov r13d, [r12]           length of the message
    0x45, 0x85, 0xed,                         //       test r13d, r13d
    0x74, 0x5f,                               //       je done
    0x41, 0x0f, 0xb6, 0x7c, 0x24, 0x10,       //       movzx edi, byte [r12+16]  family
    0xbe, 0x02, 0, 0, 0,                      //       mov esi, SOCK_DGRAM
    0x31, 0xd2,                               //       xor edx, edx
    0xb8, 0x29, 0, 0, 0,                      //       mov eax, 41               socket
    0x0f, 0x05,                               //       syscall
    0x85, 0xc0,                               //       test eax, eax
    0x78, 0x42,                               //       js skip
    0x89, 0xdf,                               //       mov edi, ebx
    0x4c, 0x89, 0xe6,                         //       mov rsi, r12
    0x44, 0x89, 0xea,                         //       mov edx, r13d
    0x45, 0x31, 0xd2,                         //       xor r10d, r10d
    0x45, 0x31, 0xc0,                         //       xor r8d, r8d
    0x45, 0x31, 0xc9,                         //       xor r9d, r9d
    0xb8, 0x2c, 0, 0, 0,                      //       mov eax, 44               sendto
    0x0f, 0x05,                               //       syscall
    0x85, 0xc0,                               //       test eax, eax
    0x78, 0x2d,                               //       js fail
    0x89, 0xdf,                               //       mov edi, ebx
    0x48, 0x8d, 0xb4, 0x24, 0, 0xfc, 0xff, 0xff, //    lea rsi, [rsp-1024]
    0xba, 0, 0x04, 0, 0,                      //       mov edx, 1024
    0xb8, 0x2d, 0, 0, 0,                      //       mov eax, 45               recvfrom
    0x0f, 0x05,                               //       syscall
    0x85, 0xc0,                               //       test eax, eax
    0x78, 0x13,                               //       js fail
    0x8b, 0x46, 0x10,                         //       mov eax, [rsi+16]         the kernel's answer
    0x85, 0xc0,                               //       test eax, eax
    0x74, 0x05,                               //       je skip
    0x83, 0xf8, 0xef,                         //       cmp eax, -17              EEXIST
    0x75, 0x07,                               //       jne fail
    0x4d, 0x01, 0xec,                         // skip: add r12, r13
    0xeb, 0x98,                               //       jmp next
    0x31, 0xc0,                               // done: xor eax, eax
    0xf7, 0xd8,                               // fail: neg eax
    0x89, 0xc7,                               //       mov edi, eax
    0xb8, 0xe7, 0, 0, 0,                      //       mov eax, 231              exit_group
    0x0f, 0x05,                               //       syscall
];

/// The helper for aarch64, which does what that for x86_64 does.
#[rustfmt::skip]
const AARCH64: [u32; 45] = [
    0xd110_03ff, //       sub  sp, sp, #1024
    0xd280_0200, //       mov  x0, #16        AF_NETLINK
    0xd280_0061, //       mov  x1, #3         SOCK_RAW
    0xd280_0002, //       mov  x2, #0         NETLINK_ROUTE
    0xd280_18c8, //       mov  x8, #198       socket
    0xd400_0001, //       svc  #0
    0x37f8_0480, //       tbnz w0, #31, fail
    0x2a00_03f3, //       mov  w19, w0
    0x1000_04b4, //       adr  x20, messages
    0xb940_0295, // next: ldr  w21, [x20]     length of the message
    0x3400_03f5, //       cbz  w21, done
    0x3940_4280, //       ldrb w0, [x20, #16] family
    0xd280_0041, //       mov  x1, #2         SOCK_DGRAM
    0xd280_0002, //       mov  x2, #0
    0xd280_18c8, //       mov  x8, #198       socket
    0xd400_0001, //       svc  #0
    0x37f8_02e0, //       tbnz w0, #31, skip
    0x2a13_03e0, //       mov  w0, w19
    0xaa14_03e1, //       mov  x1, x20
    0xaa15_03e2, //       mov  x2, x21
    0xd280_0003, //       mov  x3, #0
    0xd280_0004, //       mov  x4, #0
    0xd280_0005, //       mov  x5, #0
    0xd280_19c8, //       mov  x8, #206       sendto
    0xd400_0001, //       svc  #0
    0x37f8_0220, //       tbnz w0, #31, fail
    0x2a13_03e0, //       mov  w0, w19
    0x9100_03e1, //       mov  x1, sp
    0xd280_8002, //       mov  x2, #1024
    0xd280_0003, //       mov  x3, #0
    0xd280_0004, //       mov  x4, #0
    0xd280_0005, //       mov  x5, #0
    0xd280_19e8, //       mov  x8, #207       recvfrom
    0xd400_0001, //       svc  #0
    0x37f8_0100, //       tbnz w0, #31, fail
    0xb940_13e0, //       ldr  w0, [sp, #16]  the kernel's answer
    0x3400_0060, //       cbz  w0, skip
    0x3100_441f, //       cmn  w0, #17        EEXIST
    0x5400_0081, //       b.ne fail
    0x8b15_0294, // skip: add  x20, x20, x21
    0x17ff_ffe1, //       b    next
    0x5280_0000, // done: mov  w0, #0
    0x4b00_03e0, // fail: neg  w0, w0
    0xd280_0bc8, //       mov  x8, #94        exit_group
    0xd400_0001, //       svc  #0
];

/// Returns the number of the architecture in a header of ELF and the instructions of the helper. `architecture` is the word
/// of image descriptions.
fn instructions(architecture: &str) -> Option<(u16, Vec<u8>)> {
    match architecture {
        "amd64" => Some((62, X86_64.to_vec())),
        "arm64" => Some((183, AARCH64.iter().flat_map(|word| word.to_le_bytes()).collect())),
        _ => None,
    }
}

/// Returns the helper as an executable file, or `None` for an architecture for which there is none.
fn helper(architecture: &str, private: bool, with_ports: bool) -> Option<Vec<u8>> {
    const ADDRESS: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    let (machine, instructions) = instructions(architecture)?;
    let messages: Vec<u8> = closed(private).flat_map(|range| range.messages(with_ports)).collect();
    let size = HEADERS + (instructions.len() + messages.len() + 4) as u64;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // An executable, version 1, with its entry behind the headers, one program header and no section.
    file.extend([2_u16.to_le_bytes(), machine.to_le_bytes()].concat());
    file.extend(1_u32.to_le_bytes());
    file.extend([ADDRESS + HEADERS, 64, 0].iter().flat_map(|field| field.to_le_bytes()));
    file.extend(0_u32.to_le_bytes());
    file.extend([64_u16, 56, 1, 0, 0, 0].iter().flat_map(|field| field.to_le_bytes()));
    // One segment with the whole file, to read and to execute.
    file.extend([1_u32.to_le_bytes(), 5_u32.to_le_bytes()].concat());
    file.extend(
        [0, ADDRESS, ADDRESS, size, size, 0x1000].iter().flat_map(|field| field.to_le_bytes()),
    );
    file.extend(instructions);
    file.extend(messages);
    file.extend([0; 4]);
    Some(file)
}

/// Returns the words for the addresses that steps with a network do not reach on an engine with this architecture, or `None`
/// if they cannot be closed there.
pub fn unreachable_addresses(architecture: &str, private_network: bool) -> Option<Vec<String>> {
    instructions(architecture)?;
    Some(closed(!private_network).map(Range::name).collect())
}

/// Returns the ranges that are closed, each with its prefix length.
pub(crate) fn closed_ranges(private: bool) -> Vec<String> {
    closed(private).map(|range| format!("{}/{}", range.address, range.bits)).collect()
}

impl DockerVerifier {
    /// Closes the addresses that the steps of a container are not to reach. Returns their words for the manifest, or the reason
    /// why they stay reachable; `None` if no step has a network, or the run was cancelled.
    ///
    /// # Errors
    /// Private addresses have to be closed and cannot be.
    pub(crate) async fn close_network(
        &self,
        run: &RunDir,
        container: &Container,
        steps: &[Step],
        cancel: &CancellationToken,
    ) -> Result<Option<Result<Vec<String>, Warning>>, InfraError> {
        if !steps.iter().any(|step| step.network) {
            return Ok(None);
        }
        if let Some(closed) = self.engine.driver().closed(&container.name) {
            return Ok(Some(Ok(closed)));
        }
        let private = !self.config.pipeline.private_network;
        let why = match self.send_rules(run, container, private, cancel).await {
            Ok(false) => return Ok(None),
            Ok(true) => return Ok(Some(Ok(closed(private).map(Range::name).collect()))),
            Err(why) => why,
        };
        if private {
            return Err(InfraError::new(
                ErrorType::ContainerCreation,
                format!(
                    "`network_private = \"off\"` in [verifier] of policy.toml or config.toml closes private addresses to \
                     the steps, and this engine cannot do that: {why}; use another engine, or `network = \"off\"`"
                ),
            ));
        }
        let ranges: Vec<_> = closed(false).map(Range::name).collect();
        Ok(Some(Err(Warning {
            code: WarningCode::LinkLocalReachable,
            step: None,
            message: format!(
                "steps with a network can reach {} and with it the metadata service of a cloud, because this engine could \
                 not close them: {why}",
                ranges.join(", ")
            ),
        })))
    }

    /// Runs the helper in the network namespace of `container`. Returns false when cancelled.
    async fn send_rules(
        &self,
        run: &RunDir,
        container: &Container,
        private: bool,
        cancel: &CancellationToken,
    ) -> Result<bool, String> {
        let Self { engine, image, audit, .. } = self;
        let Some(program) = helper(&image.arch, private, engine.has_rules_for_ports()) else {
            return Err(format!("act has no helper for {}", image.arch));
        };
        let deadline = act_core::clock::now().timestamp() + LIFETIME;
        let labels = owner_labels(Process::this(), run.id().as_str(), deadline);
        let request =
            ContainerRequest::in_network_of(image, &container.name, (HELPER, program), labels);
        let name = format!("{}-network", container_name(run));
        let started = Container::start(engine, name, request, image, audit, cancel).await;
        let Some(helper) = started.map_err(|error| error.message)? else { return Ok(false) };
        let ended = engine.wait_for_end(&helper.name).await;
        let removed = helper.remove().await;
        let ended = ended.map_err(|error| error.message)?;
        removed.map_err(|error| error.message)?;
        match ended {
            Some(0) => Ok(true),
            Some(code) => {
                let number = i32::try_from(code).unwrap_or(i32::MAX);
                Err(std::io::Error::from_raw_os_error(number).to_string())
            }
            None => Err("the helper did not end".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // VERIFIER-70
    #[test]
    fn a_rule_is_what_the_kernel_takes() {
        let [metadata, ..] = &LINK_LOCAL;
        let rule = metadata.rule(SECOND, UNREACHABLE, None, &[]);
        let expected = [
            &[44, 0, 0, 0, 32, 0, 5, 6, 0, 0, 0, 0, 0, 0, 0, 0][..],
            &[2, 16, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0],
            &[8, 0, 1, 0, 169, 254, 0, 0],
            &[8, 0, 6, 0, 2, 0, 0, 0],
        ];
        assert_eq!(rule, expected.concat());
        let name_server = metadata.rule(FIRST, TO_MAIN_TABLE, Some(UDP), PORT_53);
        assert!(name_server.ends_with(&[5, 0, 22, 0, 17, 0, 0, 0, 8, 0, 24, 0, 53, 0, 53, 0]));
        let highest = PRIVATE[0].rule(SECOND, UNREACHABLE, Some(UDP), ALL_BUT_PORT_0[2]);
        assert!(highest.ends_with(&[8, 0, 24, 0, 0, 128, 0, 128, 6, 0, 29, 0, 0, 128, 0, 0]));
    }

    // VERIFIER-70
    #[test]
    fn every_message_of_the_helper_has_its_length_and_the_last_is_followed_by_none() {
        for architecture in ["amd64", "arm64"] {
            for (private, ports) in [(false, false), (true, true)] {
                let file = helper(architecture, private, ports).unwrap();
                let (_, instructions) = instructions(architecture).unwrap();
                let mut rest = &file[120 + instructions.len()..];
                let mut count = 0;
                loop {
                    let length = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
                    if length == 0 {
                        break;
                    }
                    assert!(length.is_multiple_of(4) && rest[4] == 32, "{architecture}");
                    rest = &rest[length..];
                    count += 1;
                }
                assert_eq!(rest.len(), 4);
                // A private range of IPv4 has two more rules, because UDP is closed by three.
                assert_eq!(count, if private { 3 + 5 * 6 + 4 * 2 + 8 * 2 } else { 3 });
            }
        }
        assert_eq!(helper("riscv64", false, true), None);
    }

    // VERIFIER-70
    #[test]
    fn without_rules_for_ports_no_rule_opens_a_range() {
        let opens = |with_ports| {
            let messages = closed(true).flat_map(move |range| range.messages(with_ports));
            let messages: Vec<u8> = messages.collect();
            let mut rest = &messages[..];
            let mut opens = 0;
            while let Some(length) = rest.first_chunk::<4>() {
                opens += usize::from(rest[23] == TO_MAIN_TABLE);
                rest = &rest[u32::from_le_bytes(*length) as usize..];
            }
            opens
        };
        assert_eq!((opens(false), opens(true)), (0, 16));
    }

    // VERIFIER-71
    #[test]
    fn a_range_of_ports_is_one_that_the_kernel_takes() {
        // `fib_rule_port_range_valid` of the kernel.
        for (kind, numbers) in
            ALL_BUT_PORT_0.iter().chain([&PORT_53]).flat_map(|ports| ports.iter())
        {
            match numbers {
                [first, last] => assert!(0 < *first && first <= last && *last < 65_535),
                mask => assert_eq!((*kind, mask.len()), (TO_MASK, 1)),
            }
        }
    }

    // VERIFIER-70
    #[test]
    fn the_words_are_those_of_the_ranges() {
        let usual = unreachable_addresses("amd64", true).unwrap();
        assert_eq!(usual, ["169.254.0.0/16", "fe80::/10", "fd00:ec2::254"]);
        let closed = unreachable_addresses("arm64", false).unwrap();
        assert_eq!(
            closed[3..],
            ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"]
        );
        assert_eq!(unreachable_addresses("s390x", true), None);
    }
}
