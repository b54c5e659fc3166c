// Takes the picture of a task's page for the README: node picture.mjs ADDRESS CHROMIUM FILE
import { chromium } from "playwright-core";

const [address, executablePath, file] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
// The page from its head to the difference, at the width at which it fills the picture.
const page = await browser.newPage({ viewport: { width: 1000, height: 1120 }, colorScheme: "light" });
await page.goto(address);
await page.click("tbody th a");
await page.waitForFunction(() => document.getElementById("live").textContent === "Live");
await page.screenshot({ path: file });
await browser.close();
