"""The look of a report, light and dark, and the script that reads values at the pointer."""

from __future__ import annotations

from tb_mindformers_plugin.report.charts import MOST_RUNS

_LIGHT = "417ac6 9f4606 0e704d 93378f 97730f 07a2bc 6500a8 86991a 710504 1f414a cf6d73 445368"
_DARK = "aaceff ff9963 4dcb97 e991e3 f5c44e abeeff b77aff d6eb85 e15c4d 74949e fdd4d4 96a7bb"

#: Colours of runs by slot, on white: the tab's.
RUN_COLOURS = tuple(f"#{colour}" for colour in _LIGHT.split())
assert len(RUN_COLOURS) == MOST_RUNS

_TOKENS = {
    "bg": ("#f4f5f7", "#17191c"),
    "surface": ("#ffffff", "#1f2226"),
    "raised": ("#ffffff", "#2a2e33"),
    "border": ("#dde1e6", "#363b41"),
    "grid": ("#e9ecef", "#2c3035"),
    "text": ("#1a1e23", "#eceef0"),
    "text2": ("#454e59", "#c0c6cd"),
    "text3": ("#606a76", "#9aa2ac"),
    "ok": ("#12713f", "#6fd09a"),
    "ok-bg": ("#e2f3e9", "#1b3a2a"),
    "info": ("#22609f", "#8abdf2"),
    "info-bg": ("#e3eef9", "#1d334b"),
    "warning": ("#855800", "#f0c05a"),
    "warning-bg": ("#fdf0cf", "#3d3215"),
    "critical": ("#b3202c", "#ff9a96"),
    "critical-bg": ("#fce4e4", "#4a2124"),
}


def _variables(theme: int) -> str:
    colours = (_LIGHT, _DARK)[theme].split()
    runs = "".join(f"--run{slot}:#{colour};" for slot, colour in enumerate(colours))
    return "".join(f"--{name}:{values[theme]};" for name, values in _TOKENS.items()) + runs


STYLE = (
    f":root{{color-scheme:light dark;{_variables(0)}}}"
    f"@media screen and (prefers-color-scheme:dark){{:root{{{_variables(1)}}}}}"
    + """
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--text);font:13px/20px Roboto,"Segoe UI",-apple-system,"Helvetica Neue",
Arial,"PingFang SC","Microsoft YaHei","Noto Sans CJK SC",sans-serif;font-variant-numeric:tabular-nums}
main{max-width:1240px;margin:0 auto;padding:24px}
h1{font-size:20px;line-height:28px;font-weight:600;margin:0}
h2{font-size:16px;line-height:24px;font-weight:600;margin:32px 0 8px}
h3{font-size:13px;font-weight:600;margin:16px 0 4px;overflow-wrap:anywhere}
p{margin:0 0 8px;overflow-wrap:anywhere}
small,.meta,.chartnote,.steps{color:var(--text3);font-size:12px;line-height:18px}
.note{border-left:3px solid var(--border);padding-left:8px;color:var(--text2);margin:4px 0}
.meta{margin-bottom:16px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;background:var(--surface);border:1px solid var(--border);width:100%;margin-bottom:8px}
table.plain{width:auto;min-width:40%}
th,td{text-align:left;padding:6px 12px;border-bottom:1px solid var(--border);vertical-align:top}
th{font-weight:500;color:var(--text2);font-size:12px;white-space:nowrap}
td{overflow-wrap:anywhere}
.overview td:nth-child(n+3){white-space:nowrap}
i{display:inline-block;width:10px;height:10px;border-radius:2px;background:var(--c);margin-right:6px;flex:none}
.pill{display:inline-block;padding:0 8px;border-radius:9px;font-size:12px;line-height:18px;white-space:nowrap}
.pill.ok{color:var(--ok);background:var(--ok-bg)}
.pill.info{color:var(--info);background:var(--info-bg)}
.pill.warning{color:var(--warning);background:var(--warning-bg)}
.pill.critical{color:var(--critical);background:var(--critical-bg)}
ul{list-style:none;margin:0;padding:0}
.findings li{display:grid;grid-template-columns:76px 1fr auto;gap:12px;background:var(--surface);padding:8px 12px;
border:1px solid var(--border);margin-top:-1px}
.findings p{margin:0}
.findings .pill{align-self:start;justify-self:start}
.advice{color:var(--text2)}
.steps{text-align:right}
code{font:11px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(480px,100%),1fr));gap:12px}
figure{margin:0;background:var(--surface);border:1px solid var(--border);padding:8px 12px;min-width:0;
break-inside:avoid}
figcaption{font-weight:600}
svg{display:block;width:100%;height:auto;touch-action:pan-y}
svg text{fill:var(--text3);font-size:11px}
.grid{stroke:var(--grid)}
.axis{stroke:var(--border)}
.line{fill:none;stroke:var(--c);stroke-width:1.5;stroke-linejoin:round;stroke-linecap:round}
.band{fill:none;stroke:var(--c);stroke-width:1.5;opacity:.22}
.faint{fill:none;stroke:var(--c);stroke-width:1.25;opacity:.5}
.limit{stroke:var(--text2);stroke-dasharray:5 4}
.lost{fill:none;stroke:var(--critical);stroke-width:1.25}
.mark.critical{fill:var(--critical)}.mark.warning{fill:var(--warning)}.mark.info{fill:var(--info)}
.cursor{stroke:var(--text3);stroke-dasharray:3 3}
.cursor[hidden]{display:none}
.legend{display:flex;flex-wrap:wrap;gap:2px 14px;font-size:12px;line-height:18px;color:var(--text2)}
.legend li{overflow-wrap:anywhere}
.legend b{font-weight:500;color:var(--text)}
details{background:var(--surface);border:1px solid var(--border);padding:8px 12px;margin-top:-1px}
summary{cursor:pointer;overflow-wrap:anywhere}
details table{margin-top:8px}
details.inline{background:none;border:0;padding:0}
#tip{position:fixed;z-index:1;pointer-events:none;background:var(--raised);border:1px solid var(--border);
border-radius:6px;padding:6px 10px;font-size:12px;line-height:18px;max-width:420px;
box-shadow:0 4px 16px rgba(0,0,0,.18)}
#tip b{font-weight:500}
@media (max-width:640px){main{padding:12px}.findings li{grid-template-columns:1fr}.steps{text-align:left}}
@media print{body{background:#fff}main{max-width:none;padding:0}}
"""
)

# Values at the pointer are logged ones: the last of each stretch that is drawn.
SCRIPT = r"""
(() => {
  const values = JSON.parse(document.getElementById("values").textContent);
  const tip = document.getElementById("tip");
  const nearest = (x, at) => {
    let low = 0, high = x.length - 1;
    while (high - low > 1) { const mid = (low + high) >> 1; if (x[mid] <= at) low = mid; else high = mid; }
    return Math.abs(x[high] - at) < Math.abs(x[low] - at) ? high : low;
  };
  const whole = (v) => Number.isInteger(v) && Math.abs(v) < 1e6;
  const say = (v) => v === null ? "NaN / ∞" : whole(v) ? v.toLocaleString("en") : String(v);
  for (const svg of document.querySelectorAll("svg[data-chart]")) {
    const chart = values[svg.dataset.chart];
    const cursor = svg.querySelector(".cursor");
    const hide = () => { tip.hidden = true; cursor.setAttribute("hidden", ""); };
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const px = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
      if (px < chart.left || px > chart.right) return hide();
      const at = chart.first + (px - chart.left) / (chart.right - chart.left) * (chart.last - chart.first);
      tip.textContent = "";
      let step = null;
      for (const line of chart.lines) {
        if (!line.x.length) continue;
        const i = nearest(line.x, at);
        if (step === null || Math.abs(line.x[i] - at) < Math.abs(step - at)) step = line.x[i];
      }
      for (const line of chart.lines) {
        if (!line.x.length || at > line.x[line.x.length - 1] * 1.02 + 1) continue;
        const i = nearest(line.x, at);
        const row = document.createElement("div");
        const swatch = document.createElement("i");
        swatch.style.setProperty("--c", `var(--run${line.slot})`);
        const value = document.createElement("b");
        value.textContent = say(line.y[i]);
        row.append(swatch, `${line.run}  `, value, `  @ ${line.x[i].toLocaleString("en")}`);
        tip.append(row);
      }
      if (!tip.childNodes.length) return hide();
      const x = chart.left + (step - chart.first) / (chart.last - chart.first) * (chart.right - chart.left);
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
      cursor.removeAttribute("hidden");
      tip.hidden = false;
      const width = tip.offsetWidth, height = tip.offsetHeight;
      tip.style.left = `${Math.min(event.clientX + 14, innerWidth - width - 8)}px`;
      tip.style.top = `${Math.max(8, Math.min(event.clientY + 14, innerHeight - height - 8))}px`;
    });
  }
})();
"""
