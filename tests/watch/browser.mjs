// A real browser on the pages of `act watch`: every page in both schemes and widths, with axe-core, then without script, then
// while tasks go on. Prints a line for each story, and each fault; exits with 1 when there was one.
//
//   node browser.mjs SITUATION.json
//
// The situation names the address with its token (`url`), the pages (`pages`), a task that runs until a file is written
// (`running`, `go`), one that may be cancelled (`cancel`, or null), the browser (`chromium`) and where pictures go (`pictures`).
import fs from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const situation = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const axe = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const WIDTHS = [360, 1440];
const SCHEMES = ["light", "dark"];
const PATIENCE = 30_000; // ms, because machines are shared

let faults = 0;
const fault = (text) => { faults += 1; console.log("FAULT: " + text); };
const check = (holds, text) => { if (!holds) fault(text); };
const named = (path) => (path === "/" ? "tasks" : path.replace(/^\//, "").replace(/[^a-z0-9]+/gi, "-")).slice(0, 40);

const browser = await chromium.launch({ executablePath: situation.chromium, args: ["--no-sandbox", "--force-prefers-reduced-motion"] });
const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
const page = await context.newPage();
page.setDefaultTimeout(PATIENCE);
const host = new URL(situation.url).host;
const listen = (of) => {
  of.on("console", (message) => {
    if (message.type() === "error" && !/status of 40[14]/.test(message.text())) fault("console: " + message.text());
  });
  of.on("pageerror", (error) => fault("script: " + error.message));
  of.on("request", (request) => check(new URL(request.url()).host === host, "a request to " + request.url()));
};
listen(page);

await page.goto(situation.url);
check(page.url() === "http://" + host + "/", "after entering the address is " + page.url());
const cookie = (await context.cookies())[0];
check(cookie.httpOnly && cookie.sameSite === "Strict", "the cookie is " + JSON.stringify(cookie));
await page.goto(situation.url);
check((await page.textContent("h1")) === "This page is closed", "a token works twice");
console.log("entered once");

for (const scheme of SCHEMES) {
  for (const width of WIDTHS) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width, height: width === 360 ? 740 : 900 });
    for (const path of situation.pages) {
      const place = `${path} ${scheme} ${width}`;
      await page.goto("http://" + host + path);
      await page.waitForLoadState("load");
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
      for (const one of violations) {
        fault(`${place}: ${one.id} (${one.impact}): ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.target.join(" ") + " " + (node.any[0]?.message ?? "")).join("; ")}`);
      }
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      check(wide <= 0, `${place}: ${wide} pixels too wide`);
      if (situation.pictures) {
        await page.screenshot({ path: `${situation.pictures}/${named(path)}-${scheme}-${width}.png`, fullPage: true });
      }
    }
  }
}
console.log("looked at every page");

// The keyboard alone.
await page.setViewportSize({ width: 1440, height: 900 });
await page.goto("http://" + host + "/");
await page.keyboard.press("Tab");
check((await page.evaluate(() => document.activeElement.className)) === "skip", "the first stop is not the skip link");
await page.keyboard.press("Enter");
check((await page.evaluate(() => document.activeElement.id)) === "main", "the skip link leads nowhere");
const stops = new Set();
for (let count = 0; count < 60; count += 1) {
  await page.keyboard.press("Tab");
  stops.add(await page.evaluate(() => document.activeElement.outerHTML.slice(0, 200)));
}
check([...stops].some((stop) => stop.includes("/tasks/")), "no task is reached with the keyboard");
console.log("used the keyboard");

// Without script.
const bare = await browser.newContext({ javaScriptEnabled: false, storageState: await context.storageState(), viewport: { width: 1440, height: 900 } });
const plain = await bare.newPage();
plain.setDefaultTimeout(PATIENCE);
listen(plain);
for (const path of situation.pages) {
  await plain.goto("http://" + host + path);
  check((await plain.locator("h1").count()) === 1, path + " has no heading without script");
  check((await plain.textContent("main")).length > 40, path + " is empty without script");
}
if (situation.cancel) {
  await plain.goto(`http://${host}/tasks/${situation.cancel}`);
  await plain.click("#cancel");
  check(plain.url().startsWith(`http://${host}/tasks/${situation.cancel}/cancel`), "cancelling is not asked twice");
  await plain.click("button.danger");
  await plain.waitForLoadState("load");
  console.log("cancelled without script: " + (await plain.textContent("h1")));
  check((await plain.textContent("h1")) === "Tasks", "after cancelling a waiting task is " + plain.url());
}
console.log("worked without script");

// Seven pages of one session: the seventh loads, and the first says that it is not live any more.
const tabs = [];
for (let count = 0; count < 7; count += 1) {
  const tab = await context.newPage();
  tab.setDefaultTimeout(PATIENCE);
  await tab.goto("http://" + host + "/");
  check((await tab.textContent("h1")) === "Tasks", "page " + (count + 1) + " does not load");
  tabs.push(tab);
}
await Promise.all(tabs.map((tab) => tab.close()));
console.log("opened seven pages");

// A task goes on while its page is open: milestones appear, the state changes, focus and open details stay.
await page.goto(`http://${host}/tasks/${situation.running}`);
await page.waitForFunction(() => document.getElementById("live").textContent === "Live");
await page.focus(`nav.crumbs a`);
const before = await page.textContent("#head");
check(/RUNNING/.test(before), "the task does not run: " + before);
fs.writeFileSync(situation.go, "");
await page.waitForFunction(() => /Ended: SUCCESS/.test(document.getElementById("milestones").textContent), null, { timeout: 120_000 });
await page.waitForFunction(() => /SUCCESS/.test(document.getElementById("head").textContent));
check((await page.evaluate(() => document.activeElement.getAttribute("href"))) === "/", "the focus was lost");
console.log("followed a task to its end");

await browser.close();
console.log(faults === 0 ? "no faults" : faults + " faults");
process.exit(faults === 0 ? 0 : 1);
