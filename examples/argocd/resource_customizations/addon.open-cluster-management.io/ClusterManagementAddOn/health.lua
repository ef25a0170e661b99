local strategy = obj.spec ~= nil and obj.spec.installStrategy or nil
local placements = strategy ~= nil and strategy.placements or nil
if strategy == nil or strategy.type ~= "Placements" or placements == nil or #placements == 0 then
  return { status = "Healthy", message = "the add-on is installed by hand" }
end

local progressions = {}
if obj.status ~= nil and obj.status.installProgressions ~= nil then
  for _, progression in ipairs(obj.status.installProgressions) do
    progressions[progression.namespace .. "/" .. progression.name] = progression
  end
end

local waiting, failed = nil, nil
for _, placement in ipairs(placements) do
  local name = placement.namespace .. "/" .. placement.name
  local progressing = nil
  for _, condition in ipairs(progressions[name] ~= nil and progressions[name].conditions or {}) do
    if condition.type == "Progressing" then
      progressing = condition
    end
  end
  if progressing == nil then
    waiting = waiting or (name .. ": the rollout has not started")
  elseif progressing.reason == "Failed" then
    failed = failed or (name .. ": " .. (progressing.message or ""))
  elseif progressing.reason ~= "Completed" then
    waiting = waiting or (name .. ": " .. (progressing.message or ""))
  end
end
if failed ~= nil then
  return { status = "Degraded", message = failed }
end
if waiting ~= nil then
  return { status = "Progressing", message = waiting }
end
return { status = "Healthy", message = "every rollout is completed" }
