local conditions = {}
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    conditions[condition.type] = condition
  end
end

-- Whether a condition has a status, and is about the present spec where it says what it is about.
local function is(type, status)
  local condition = conditions[type]
  if condition == nil or condition.status ~= status then
    return false
  end
  local observed = condition.observedGeneration
  return observed == nil or observed == 0 or observed >= (obj.metadata.generation or 0)
end

local function health(status, type, otherwise)
  local condition = conditions[type]
  local message = otherwise
  if condition ~= nil and condition.message ~= nil and condition.message ~= "" then
    message = condition.message
  end
  return { status = status, message = message }
end

if is("Degraded", "True") then
  return health("Degraded", "Degraded", "the add-on is degraded")
end
for _, type in ipairs({ "ManifestApplied", "RegistrationApplied", "Available" }) do
  if is(type, "False") then
    return health("Degraded", type, type .. " is False")
  end
end
local progressing = conditions["Progressing"]
if progressing ~= nil and progressing.status == "False" and progressing.reason == "Failed" then
  return health("Degraded", "Progressing", "the configuration failed")
end
if progressing ~= nil and progressing.status == "True" then
  return health("Progressing", "Progressing", "the configuration is rolled out")
end
if is("Available", "True") then
  return health("Healthy", "Available", "the add-on is available")
end
return health("Progressing", "Available", "the add-on has not reported yet")
